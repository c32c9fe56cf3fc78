"""Messages that have come and are not read yet, and who waits for which."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.api import Message, PeerLost


@dataclass(eq=False)
class _Wait:
    """Somebody waits for a message from `sender`, or from anyone, and in vain once one of `others` is lost."""

    sender: str | None
    version: int | None
    others: Sequence[str]
    future: asyncio.Future[Message]

    def takes(self, message: Message) -> bool:
        return not self.future.done() and _fits(message, self.sender, self.version)


class Mailbox:
    """Unread messages by tag, in the order in which they came."""

    def __init__(self) -> None:
        self._unread: dict[str, deque[Message]] = defaultdict(deque)
        self._waiting: dict[str, list[_Wait]] = defaultdict(list)
        self._lost: dict[str, str] = {}

    def put(self, message: Message) -> None:
        """Give a message to the first who waits for it, or keep it."""
        if not self._give(message):
            self._unread[message.tag].append(message)

    def put_back(self, messages: Sequence[Message]) -> None:
        """Messages that were taken and not used; they come first again, in this order."""
        kept = [message for message in messages if not self._give(message)]
        for message in reversed(kept):
            self._unread[message.tag].appendleft(message)

    def _give(self, message: Message) -> bool:
        waiting = self._waiting[message.tag]
        for place, wait in enumerate(waiting):
            if wait.takes(message):
                del waiting[place]
                wait.future.set_result(message)
                return True
        return False

    def lose(self, peer: str, why: str) -> None:
        """Nothing more will come from `peer`; who waits for it is told so. Messages in hand stay."""
        self._lost.setdefault(peer, why)
        for tag, waiting in self._waiting.items():
            for wait in waiting:
                if not wait.future.done() and self._in_vain(tag, wait, peer):
                    wait.future.set_exception(PeerLost(peer, why))

    def _in_vain(self, tag: str, wait: _Wait, peer: str) -> bool:
        if peer == wait.sender:
            return True
        return peer in wait.others and not any(_fits(message, peer, wait.version) for message in self._unread[tag])

    def take(self, tag: str, sender: str | None, version: int | None = None) -> Message | None:
        """The oldest unread message that fits, if there is one. PeerLost when none can come any more."""
        unread = self._unread[tag]
        for place, message in enumerate(unread):
            if _fits(message, sender, version):
                del unread[place]
                return message
        if sender is not None and sender in self._lost:
            raise PeerLost(sender, self._lost[sender])
        return None

    async def wait(
        self, tag: str, sender: str | None, version: int | None = None, others: Sequence[str] = ()
    ) -> Message:
        """The next message that fits; call it after `take` found none.

        PeerLost too when nothing can come any more from one of `others`, whose turn is next.
        """
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        entry = _Wait(sender, version, others, future)
        for peer in others:
            if peer in self._lost and self._in_vain(tag, entry, peer):
                raise PeerLost(peer, self._lost[peer])
        self._waiting[tag].append(entry)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.put_back([future.result()])  # it came at the very moment we gave up
            raise
        finally:
            if entry in self._waiting[tag]:
                self._waiting[tag].remove(entry)


def _fits(message: Message, sender: str | None, version: int | None) -> bool:
    return sender in (None, message.sender) and version in (None, message.version)
