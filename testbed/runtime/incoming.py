"""The receiving end of a connection: bytes into frames, with as few wake-ups as there are frames.

On a virtual clock every segment would wake the receiver by itself, and a wake-up is what costs most. So
the kernel is told how many bytes to wait for (SO_RCVLOWAT): the rest of the frame that is under way, and
between frames the length of the last two, if they were alike. A sender whose next frame is shorter than
that says so beforehand, over the connection for small messages (`Expectation` keeps both ends in step).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

import numpy as np

from testbed.api import Vector
from testbed.runtime.frames import HELLO, BadFrame, Head, unpack

SCRATCH = 65536
LINGER = struct.pack("ii", 1, 0)
"""A socket with this setting is reset when it is closed."""
LARGEST_WAKE = 1 << 20
"""bytes; a receiver is woken at least this often, so that its buffer never limits the window."""

_NOTHING: Vector = np.empty(0, np.float32)


class Expectation:
    """How long the next frame will be, as both ends work it out from the frames so far."""

    def __init__(self) -> None:
        self.count = 0
        """frames so far."""
        self._last = 0
        self._length = 0

    @property
    def length(self) -> int:
        """Bytes that the next frame has at least, unless it is announced as shorter; 0 for no idea."""
        return min(self._length, LARGEST_WAKE)

    def saw(self, length: int) -> None:
        """A frame of that many bytes went by."""
        self.count += 1
        self._length = length if length == self._last and length > SCRATCH // 4 else 0
        self._last = length


class Incoming(asyncio.BufferedProtocol):
    """Reads heads into a small scratch buffer, and what follows straight into its own memory."""

    def __init__(
        self,
        deliver: Callable[[Incoming, Head, Vector], None],
        ended: Callable[[Incoming, str, bool], None],
        greet: Callable[[Incoming], None],
    ) -> None:
        self._deliver, self._ended, self._greet = deliver, ended, greet
        self._scratch = memoryview(bytearray(SCRATCH))
        self._buffer = self._scratch
        self._filled = 0
        self._head: Head | None = None
        self._vector: Vector = _NOTHING
        self._body = memoryview(b"")
        self._received = 0
        self._low_water = 1
        self._expectation = Expectation()
        self._short: set[int] = set()
        self.peer = ""
        """Who speaks; empty before it has said so."""
        self.number = 0
        """0 for small messages; from 1 on the peer's connections for vectors, one after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._socket: socket.socket = transport.get_extra_info("socket")

    def connection_lost(self, error: Exception | None) -> None:
        if self.peer:
            self._ended(self, str(error) if error else "it closed the connection", False)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :] if self._head is None else self._body[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._head is None:
                self._filled += nbytes
                self._read_buffer()
            else:
                self._received += nbytes
                self._read_body()
        except (BadFrame, ValueError) as error:
            self._transport.abort()
            self._ended(self, str(error), True)
            self.peer = ""  # its end has been told

    def reset(self) -> None:
        """Close at once, which resets the connection."""
        if not self._transport.is_closing():
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            self.peer = ""  # who closes has lost nobody
            self._transport.abort()

    def expect_short(self, number: int) -> None:
        """The sender announces that frame `number` is shorter than those before it."""
        self._short.add(number)
        if self._head is None:
            self._wait_for_frame()

    def _read_buffer(self) -> None:
        """Take every frame that the buffer holds, and begin the one that it holds in part."""
        start = 0
        while self._head is None and (found := unpack(self._buffer[start : self._filled])) is not None:
            head, length = found
            begin = start + length
            have = min(head.payload, self._filled - begin)
            start = begin + have
            if have == head.payload:
                self._arrived(head, self._cut_out(begin, have), length)
            else:
                self._begin_body(head, begin, have, length)
        self._keep(start)
        if self._head is None:
            self._wait_for_frame()
        else:
            self._set_low_water(min(self._head.payload - self._received, LARGEST_WAKE))

    def _cut_out(self, begin: int, size: int) -> Vector:
        """The vector at `begin`. A buffer that held this one frame becomes the vector's own memory."""
        if not size:
            return _NOTHING
        vector: Vector = np.frombuffer(self._buffer[begin : begin + size], np.float32)
        return vector if self._buffer is not self._scratch and begin + size == len(self._buffer) else vector.copy()

    def _begin_body(self, head: Head, begin: int, have: int, length: int) -> None:
        self._vector = np.empty(head.payload // 4, np.float32)
        self._body = self._vector.data.cast("B")
        self._body[:have] = self._buffer[begin : begin + have]
        self._head, self._received, self._length = head, have, length

    def _read_body(self) -> None:
        head = self._head
        assert head is not None
        if self._received < head.payload:
            self._set_low_water(min(head.payload - self._received, LARGEST_WAKE))
            return
        vector, self._vector, self._head = self._vector, _NOTHING, None
        self._arrived(head, vector, self._length)
        self._wait_for_frame()

    def _arrived(self, head: Head, vector: Vector, length: int) -> None:
        if head.tag == HELLO:
            if not {"name", "bulk"} <= head.meta.keys():
                raise BadFrame(f"a hello says who speaks; this one says {head.meta}")
            self.peer, self.number = str(head.meta["name"]), int(head.meta["bulk"])
            self._greet(self)
            return
        if not self.peer:
            raise BadFrame("the first frame of a connection must be a hello")
        self._short.discard(self._expectation.count)
        self._expectation.saw(length + head.payload)
        self._deliver(self, head, vector)

    def _keep(self, start: int) -> None:
        """Move what is left of the buffer to the front of the scratch buffer."""
        left = self._filled - start
        if left or self._buffer is self._scratch:
            self._scratch[:left] = bytes(self._buffer[start : self._filled])
            self._buffer = self._scratch
        else:
            self._buffer = self._scratch
        self._filled = left

    def _wait_for_frame(self) -> None:
        """Nothing of the next vector is here yet: wait for a whole frame if its length is known."""
        length = self._expectation.length
        if length and not self._filled and self._expectation.count not in self._short:
            self._buffer = np.empty(length, np.uint8).data
        elif not self._filled:
            self._buffer, length = self._scratch, 1
        else:
            length = 1
        self._set_low_water(max(length, 1))

    def _set_low_water(self, size: int) -> None:
        if size != self._low_water:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
            self._low_water = size
