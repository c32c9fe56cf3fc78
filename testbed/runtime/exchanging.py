"""Atomic pairwise exchange: a node that has asked holds its vector still until it is answered.

Someone who asks a node that has itself asked a third may have to wait. Only the lower number waits for the
higher one, so that no circle of waiting nodes can close; the higher number is told that the other is busy
and asks again when it hears that it is free. The busy one lets those go first before it asks anew, so that
nobody starves. Two requests that cross are one exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from testbed.api import Message, PeerLost, Vector

ASK, ANSWER, BUSY, FREE = "\0ask", "\0answer", "\0busy", "\0free"
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
        """Whom we have asked; empty when we are free."""
        self._answer: asyncio.Future[Message | None] | None = None
        self._freed: asyncio.Future[None] | None = None
        self._refuser = ""
        self._queue: list[Message] = []
        self._refused: dict[str, None] = {}
        self._served: asyncio.Event = asyncio.Event()
        self._lost: dict[str, str] = {}

    def register(self, give: Callable[[], Vector], take: Callable[[Message], None]) -> None:
        """What this node gives and how it takes; those who have asked before are answered now."""
        self._give, self._take = give, take
        self._serve()

    async def exchange(self, peer: str) -> Message:
        """Swap with a peer, asking again whenever it was busy."""
        if self._give is None or self._take is None:
            raise ValueError(f"{self._name} must call on_exchange before it exchanges")
        if peer == self._name:
            raise ValueError(f"{self._name} cannot exchange with itself")
        async with self._turn:
            while True:
                await self._let_others_go_first()
                if peer in self._lost:
                    raise PeerLost(peer, self._lost[peer])
                message = await self._ask(peer)
                if message is not None:
                    return message
                await self._until_free(peer)

    async def _let_others_go_first(self) -> None:
        while self._refused:
            self._served.clear()
            await self._served.wait()

    async def _ask(self, peer: str) -> Message | None:
        """One attempt; None when the peer is busy."""
        assert self._give is not None
        self._count += 1
        self._partner = peer
        self._freed = asyncio.get_running_loop().create_future()
        self._refuser = peer
        self._answer = asyncio.get_running_loop().create_future()
        self._post(peer, ASK, self._give(), self._count, {})
        try:
            return await self._answer
        finally:
            self._partner, self._answer = "", None
            self._serve()
            for name in self._refused:
                self._post(name, FREE, None, 0, {})

    async def _until_free(self, peer: str) -> None:
        assert self._freed is not None
        try:
            await self._freed
        except asyncio.CancelledError:
            self._post(peer, FREE, None, 0, {"withdrawn": True})
            raise

    def heed(self, message: Message) -> bool:
        """Act on a message of an exchange; False for any other."""
        if message.tag == ASK:
            self._asked(message)
        elif message.tag == ANSWER:
            if message.sender == self._partner and message.meta["ask"] == self._count:
                self._conclude(message)
        elif message.tag == BUSY:
            if message.sender == self._partner and message.version == self._count and self._answer is not None:
                self._answer.set_result(None)
        elif message.tag == FREE:
            if message.meta.get("withdrawn"):
                self._forget(message.sender)
            elif self._freed is not None and message.sender == self._refuser and not self._freed.done():
                self._freed.set_result(None)
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

    def _asked(self, message: Message) -> None:
        self._forget(message.sender)
        if message.sender == self._partner and self._answer is not None and not self._answer.done():
            self._conclude(message)  # our requests have crossed: each is the other's answer
        elif self._take is None or self._give is None:
            self._queue.append(message)
        elif not self._partner:
            self._reply(message)
        elif self._numbers[message.sender] < self._numbers[self._name]:
            self._queue.append(message)
        else:
            self._refused[message.sender] = None
            self._post(message.sender, BUSY, None, message.version, {})

    def _conclude(self, message: Message) -> None:
        assert self._answer is not None and self._take is not None
        if not self._answer.done():
            self._take(message)
            self._answer.set_result(message)
            self._partner = ""

    def _reply(self, message: Message) -> None:
        assert self._give is not None and self._take is not None
        mine = self._give().copy()
        self._take(message)
        self._post(message.sender, ANSWER, mine, message.version, {"ask": message.version})

    def _serve(self) -> None:
        """Answer those who had to wait, unless we have asked somebody ourselves."""
        while self._queue and not self._partner and self._take is not None:
            self._reply(self._queue.pop(0))
