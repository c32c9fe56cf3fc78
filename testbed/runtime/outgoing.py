"""The sending end of a connection: frames go out one after the other, whole or not at all."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from testbed.api import PeerLost, Vector
from testbed.runtime.frames import SHORT, pack
from testbed.runtime.incoming import LINGER, Expectation

TCP_NOTSENT_LOWAT = 25


class Outgoing:
    """One connection to a peer. Frames of concurrent senders go out in the order in which they were asked for."""

    def __init__(self, sock: socket.socket, peer: str, number: int) -> None:
        self._socket, self._peer = sock, peer
        self.number = number
        """0 for small messages; else which connection for vectors to this peer it is, from 1 on."""
        self._turn = asyncio.Lock()
        self._expectation = Expectation()
        self._unsent = 0
        self._full = False
        """Whether the kernel holds more than it should, so that the next frame waits before its first byte."""
        self._room: asyncio.Future[None] | None = None
        """Whoever waits until the kernel's buffer has some."""

    async def send(self, head: bytes, vector: Vector | None, words: Outgoing | None = None) -> None:
        """Hand a frame to the kernel; returns when the last byte is in its buffer.

        `words` is the connection for small messages, over which a frame is announced that is shorter than
        the receiver expects. PeerLost when the connection is gone. Cancelled before the first byte, nothing
        has happened; cancelled later, half a frame is left and the connection is closed.
        """
        body = vector.data.cast("B") if vector is not None and vector.size else memoryview(b"")
        length = len(head) + len(body)
        async with self._turn:
            try:
                self._leave_room(length)
                if words is not None and length < self._expectation.length:
                    meta = {"bulk": self.number}
                    await words.send(pack(SHORT, self._expectation.count, 0.0, meta, None), None)
                await self._hand_over([memoryview(head), body])
            except OSError as error:
                self.close()
                raise PeerLost(self._peer, error.strerror or str(error)) from error
            self._expectation.saw(length)

    def _leave_room(self, length: int) -> None:
        """Let about one frame wait unsent in the kernel and no more: senders feel a slow link at once."""
        if length > self._unsent:
            self._unsent = length
            self._socket.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, length)

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def close(self, reset: bool = False) -> None:
        """What is in the kernel's buffer still leaves, unless the connection is reset."""
        if self.closed:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        self._socket.close()
        if self._room is not None and not self._room.done():
            self._room.set_exception(ConnectionResetError(errno.ECONNRESET, "it closed the connection"))

    def when_it_ends(self, tell: Callable[[str], None]) -> None:
        """Nothing ever comes this way but the connection's end."""

        def ended() -> None:
            try:
                why = "" if self._socket.recv(1) else "it closed the connection"
            except BlockingIOError:
                return
            except OSError as error:
                why = error.strerror or str(error)
            self.close()
            tell(why)

        asyncio.get_running_loop().add_reader(self._socket, ended)

    def greeted(self) -> None:
        """The hello is not counted among the frames."""
        self._expectation = Expectation()

    async def _hand_over(self, pieces: list[memoryview]) -> None:
        """One system call for the whole frame, where the kernel's buffer has room for it."""
        whole = sum(len(piece) for piece in pieces)
        if self._full:
            await self._writable()
            self._full = False
        left = self._give_kernel(pieces)
        while left:
            begun = sum(len(piece) for piece in left) < whole
            if begun and not self.number:
                # Half of a small message would cost the connection, and with it the peer. The kernel takes
                # the rest as well when it may hold more than one frame for the moment.
                self._socket.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0)
                left = self._give_kernel(left)
                self._socket.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, self._unsent)
                self._full = True
                if not left:
                    return
            try:
                await self._writable()
            except asyncio.CancelledError:
                if begun:
                    self.close()
                raise
            left = self._give_kernel(left)

    def _give_kernel(self, pieces: list[memoryview]) -> list[memoryview]:
        """What it has no room for."""
        try:
            sent = self._socket.sendmsg(pieces)
        except BlockingIOError:
            return pieces
        left = []
        for piece in pieces:
            if sent < len(piece):
                left.append(piece[sent:])
            sent = max(0, sent - len(piece))
        return left

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        room = self._room = loop.create_future()

        def there_is_room() -> None:
            if not room.done():
                room.set_result(None)

        loop.add_writer(self._socket, there_is_room)
        try:
            await room
        finally:
            if not self.closed:
                loop.remove_writer(self._socket)
