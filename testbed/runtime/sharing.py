"""Verbs made of messages: publish and pull, exchange, group operations. The same on every carrier.

Requests and answers have tags of their own, which no algorithm can use, and never reach the mailbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from testbed.api import Message, PeerLost, Vector, parts
from testbed.runtime.activity import Activities
from testbed.runtime.exchanging import Exchanges
from testbed.runtime.mailbox import Mailbox

PULL, PULLED = "\0pull", "\0pulled"
T = TypeVar("T")


class Sharing:
    """The part of a node that shares vectors with others."""

    name: str
    mailbox: Mailbox
    numbers: dict[str, int]

    if TYPE_CHECKING:  # what the node itself has

        def send(
            self, peer: str, tag: str, vector: Vector | None = None, *, version: int = 0,
            meta: dict[str, Any] | None = None, deadline: float | None = None,
        ) -> Coroutine[Any, Any, None]: ...  # fmt: skip

        async def recv(
            self, tag: str, sender: str | None = None, *, version: int | None = None, deadline: float | None = None
        ) -> Message: ...

        async def waiting(self, awaitable: Coroutine[Any, Any, T], what: str, deadline: float | None) -> T: ...

    def _share(self) -> None:
        self.activities = Activities()
        self._published: dict[str, tuple[int, Vector]] = {}
        self._asked: list[Message] = []
        self._pulls: dict[int, tuple[str, asyncio.Future[Message]]] = {}
        self._pull_number = 0
        self._exchanges = Exchanges(self.name, self.numbers, self._post)

    def _post(self, peer: str, tag: str, vector: Vector | None, version: int, meta: dict[str, Any]) -> None:
        """Send without waiting; a peer that is gone is no loss here."""
        self.activities.spawn(self._attempt(self.send(peer, tag, vector, version=version, meta=meta)))

    @staticmethod
    async def _attempt(sending: Coroutine[Any, Any, None]) -> None:
        with suppress(PeerLost):  # it is told to whoever waits for that peer
            await sending

    def heed(self, message: Message) -> bool:
        """Act on a request or an answer; False for a message that is the algorithm's."""
        if message.tag == PULL:
            if not self._answer_pull(message):
                self._asked.append(message)
        elif message.tag == PULLED:
            _, future = self._pulls.get(int(message.meta["pull"]), ("", None))
            if future is not None and not future.done():
                future.set_result(Message(message.sender, message.meta["name"], message.version, message.vector, {}))
        else:
            return self._exchanges.heed(message)
        return True

    def lose(self, peer: str, why: str) -> None:
        """The peer is gone: tell whoever waits for it."""
        self.mailbox.lose(peer, why)
        self._exchanges.lose(peer, why)
        self._asked = [asked for asked in self._asked if asked.sender != peer]
        for asked_of, future in self._pulls.values():
            if asked_of == peer and not future.done():
                future.set_exception(PeerLost(peer, why))

    # Publish and pull

    def publish(self, vector: Vector, version: int, *, name: str = "model") -> None:
        self._published[name] = version, vector.copy()
        self._asked = [asked for asked in self._asked if not self._answer_pull(asked)]

    def _answer_pull(self, asked: Message) -> bool:
        held = self._published.get(asked.meta["name"])
        after = asked.meta["after"]
        if held is None or (after is not None and held[0] <= after):
            return False
        self._post(asked.sender, PULLED, held[1], held[0], {"pull": asked.meta["pull"], "name": asked.meta["name"]})
        return True

    async def pull(
        self, peer: str, *, name: str = "model", after: int | None = None, deadline: float | None = None
    ) -> Message:
        return await self.waiting(self._pull(peer, name, after), f"{name!r} of {peer}", deadline)

    async def _pull(self, peer: str, name: str, after: int | None) -> Message:
        self._pull_number += 1
        number = self._pull_number
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pulls[number] = peer, future
        meta = {"pull": number, "name": name, "after": after}
        try:
            if peer == self.name:
                self.heed(Message(peer, PULL, 0, np.empty(0, np.float32), meta))
            else:
                await self.send(peer, PULL, meta=meta)
            return await future
        finally:
            del self._pulls[number]

    # Two nodes at once

    def on_exchange(self, give: Callable[[], Vector], take: Callable[[Message], None]) -> None:
        self._exchanges.register(give, take)

    async def exchange(self, peer: str, *, deadline: float | None = None) -> Message:
        return await self.waiting(self._exchanges.exchange(peer), f"an exchange with {peer}", deadline)

    # Groups

    def _neighbours(self, group: Sequence[str]) -> tuple[int, str, str]:
        """Place in the ring, and who stands left and right of it."""
        if len(set(group)) != len(group) or self.name not in group:
            raise ValueError(f"{self.name} needs a group of different nodes that it belongs to, not {list(group)}")
        place = list(group).index(self.name)
        return place, group[place - 1], group[(place + 1) % len(group)]

    async def _pass_on(self, left: str, right: str, tag: str, step: int, part: Vector) -> Vector:
        """Hand a part to the right while the left one hands over its own."""
        sending = asyncio.ensure_future(self.send(right, tag, part, version=step))
        receiving = asyncio.ensure_future(self.recv(tag, left, version=step))
        try:
            await asyncio.gather(sending, receiving)
            return receiving.result().vector
        finally:
            sending.cancel()  # when the other one has failed
            receiving.cancel()

    async def reduce_scatter(
        self, group: Sequence[str], tag: str, vector: Vector, *, deadline: float | None = None
    ) -> Vector:
        return await self.waiting(self._reduce_scatter(group, tag, vector.copy()), f"the group's {tag!r}", deadline)

    async def _reduce_scatter(self, group: Sequence[str], tag: str, vector: Vector) -> Vector:
        place, left, right = self._neighbours(group)
        size = len(group)
        cuts = parts(len(vector), size)
        part = vector[cuts[(place - 1) % size]]
        for step in range(1, size):
            passed = await self._pass_on(left, right, f"{tag}\0scatter", step, part)
            part = passed + vector[cuts[(place - 1 - step) % size]]
        return part

    async def all_gather(
        self, group: Sequence[str], tag: str, part: Vector, *, deadline: float | None = None
    ) -> Vector:
        return await self.waiting(self._all_gather(group, tag, part.copy()), f"the group's {tag!r}", deadline)

    async def _all_gather(self, group: Sequence[str], tag: str, part: Vector) -> Vector:
        place, left, right = self._neighbours(group)
        size = len(group)
        found = {place: part}
        for step in range(1, size):
            part = found[(place - step) % size] = await self._pass_on(left, right, f"{tag}\0gather", step, part)
        return np.concatenate([found[i] for i in range(size)])

    async def all_reduce(
        self, group: Sequence[str], tag: str, vector: Vector, *, deadline: float | None = None
    ) -> Vector:
        async def both() -> Vector:
            return await self.all_gather(group, tag, await self.reduce_scatter(group, tag, vector))

        return await self.waiting(both(), f"the group's {tag!r}", deadline)
