"""Atomic pairwise exchange: a node that has asked holds its vector still until it is answered.

Someone who asks a node that has itself asked a third may have to wait. Only the lower number waits for the
higher one, so that no circle of waiting nodes can close; the higher number is told that the other is busy
and asks again when it hears that it is free. The busy one lets those go first before it asks anew, so that
nobody starves. Two requests that cross are one exchange. Who gives up withdraws its request; only an answer
that is on its way already can no more be stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from testbed.api import Message, PeerLost, Vector

ASK, ANSWER, BUSY, FREE, WITHDRAWN = "\0ask", "\0answer", "\0busy", "\0free", "\0withdrawn"
Post = Callable[[str, str, Vector | None, int, dict[str, Any]], None]


class Exchanges:
    """One node's side of all its exchanges. `post` sends without waiting."""

    def __init__(self, name: str, numbers: dict[str, int], post: Post) -> None:
        self._name, self._numbers, self._post = name, numbers, post
        self._give: Callable[[], Vector] | None = None
        self._take: Callable[[Message], None] | None = None
        self._turn = asyncio.Lock()
        self._count = 0
        self._partner = ""
        """Whom we have asked; empty while our vector may change."""
        self._answer: asyncio.Future[Message | None] | None = None
        self._refuser = ""
        """Who is to tell us that it is free."""
        self._freed: asyncio.Future[None] | None = None
        self._queue: list[Message] = []
        """Who waits for our answer."""
        self._refused: dict[str, None] = {}
        """Whom we told that we are busy, and who has not asked again."""
        self._withdrawn: dict[str, int] = {}
        """Each peer's last request that it gave up. The word of it may come before the request itself."""
        self._served = asyncio.Event()
        self._lost: dict[str, str] = {}

    def register(self, give: Callable[[], Vector], take: Callable[[Message], None]) -> None:
        """What this node gives and how it takes; those who have asked before are answered now."""
        self._give, self._take = give, take
        self._serve()

    async def exchange(self, peer: str) -> Message:
        """Swap with a peer, asking again whenever it was busy."""
        if self._give is None:
            raise ValueError(f"{self._name} must call on_exchange before it exchanges")
        if peer == self._name:
            raise ValueError(f"{self._name} cannot exchange with itself")
        async with self._turn:
            while True:
                while self._refused:
                    self._served.clear()
                    await self._served.wait()
                message = await self._ask(peer, self._give())
                if message is not None:
                    return message

    async def _ask(self, peer: str, mine: Vector) -> Message | None:
        """One attempt; None once a peer that was busy is free."""
        if peer in self._lost:
            raise PeerLost(peer, self._lost[peer])
        loop = asyncio.get_running_loop()
        self._count += 1
        self._partner, self._answer = peer, loop.create_future()
        self._refuser, self._freed = peer, loop.create_future()
        self._post(peer, ASK, mine, self._count, {})
        try:
            message = await self._answer
            self._release()
            if message is None:
                await self._freed
            return message
        except asyncio.CancelledError:
            self._post(peer, WITHDRAWN, None, self._count, {})
            raise
        finally:
            self._release()
            self._refuser, self._freed = "", None

    def _release(self) -> None:
        """Our vector may change again: answer those who wait, and tell those who were refused."""
        if self._answer is not None:
            self._partner, self._answer = "", None
            self._serve()
            for name in self._refused:
                self._post(name, FREE, None, 0, {})

    def heed(self, message: Message) -> bool:
        """Act on a message of an exchange; False for any other."""
        if message.tag == ASK:
            self._asked(message)
        elif message.tag in (ANSWER, BUSY):
            if message.sender == self._partner and message.version == self._count:
                self._conclude(message if message.tag == ANSWER else None)
        elif message.tag == FREE:
            if message.sender == self._refuser and self._freed is not None:
                if not self._freed.done():
                    self._freed.set_result(None)
            else:  # we have given up; the peer must not keep its place for us
                self._post(message.sender, WITHDRAWN, None, 0, {})
        elif message.tag == WITHDRAWN:
            self._withdraw(message)
        else:
            return False
        return True

    def lose(self, peer: str, why: str) -> None:
        """The peer is gone."""
        self._lost[peer] = why
        self._queue = [asked for asked in self._queue if asked.sender != peer]
        self._forget(peer)
        if peer == self._partner and self._answer is not None and not self._answer.done():
            self._answer.set_exception(PeerLost(peer, why))
        if peer == self._refuser and self._freed is not None and not self._freed.done():
            self._freed.set_result(None)

    def _forget(self, peer: str) -> None:
        self._refused.pop(peer, None)
        if not self._refused:
            self._served.set()

    def _withdraw(self, message: Message) -> None:
        """The sender waits for us no more; its requests up to that number are void."""
        sender = message.sender
        self._withdrawn[sender] = max(message.version, self._withdrawn.get(sender, 0))
        self._queue = [asked for asked in self._queue if asked.sender != sender or asked.version > message.version]
        self._forget(sender)

    def _asked(self, message: Message) -> None:
        if message.version <= self._withdrawn.get(message.sender, 0):
            return
        self._forget(message.sender)
        waiting = self._answer is not None and not self._answer.done()
        if message.sender == self._partner and waiting:
            self._conclude(message)  # our requests have crossed: each is the other's answer
        elif self._give is None or (self._partner and self._may_wait(message.sender)):
            self._queue.append(message)
        elif self._partner:
            self._refused[message.sender] = None
            self._post(message.sender, BUSY, None, message.version, {})
        else:
            self._reply(message)

    def _may_wait(self, peer: str) -> bool:
        return self._numbers[peer] < self._numbers[self._name]

    def _conclude(self, message: Message | None) -> None:
        """The peer's vector, or None when it is busy."""
        if self._answer is None or self._answer.done():
            return
        if message is not None:
            assert self._take is not None
            self._take(message)
        self._answer.set_result(message)

    def _reply(self, message: Message) -> None:
        assert self._give is not None and self._take is not None
        mine = self._give().copy()
        self._take(message)
        self._post(message.sender, ANSWER, mine, message.version, {})

    def _serve(self) -> None:
        """Answer those who had to wait."""
        waiting, self._queue = self._queue, []
        for message in waiting:
            self._reply(message)
