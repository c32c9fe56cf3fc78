"""Frames over TCP on asyncio: connections, their settings, and what becomes of them.

Every pair of nodes that talks has, per direction, a connection for vectors and one for small messages,
so that a word never queues behind a model. A connection carries frames one way; the other way carries
acknowledgements. Nothing here knows what a frame means.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import numpy as np

from testbed.api import PeerLost, Vector
from testbed.runtime.frames import HELLO, BadFrame, Head, pack, unpack
from testbed.spec.run import Tcp

PORT = 7000
SCRATCH = 65536
LARGEST_WAKE = 1 << 20
"""bytes; a receiver is woken at least this often, so that its buffer never limits the window."""

Deliver = Callable[[str, Head, Vector], None]
Lose = Callable[[str, str], None]

_NOTHING: Vector = np.empty(0, np.float32)


class SettingRefused(Exception):
    """The kernel did not take a socket setting."""


def configure(sock: socket.socket, tcp: Tcp) -> None:
    """Set congestion control and no delay, and read the former back. SettingRefused if it differs."""
    wanted = tcp.congestion.encode()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, wanted)
    except OSError as error:
        raise SettingRefused(f"this kernel has no congestion control {tcp.congestion!r}") from error
    found = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    if found != wanted:
        raise SettingRefused(f"congestion control is {found.decode()!r} where {tcp.congestion!r} was set")


class Incoming(asyncio.BufferedProtocol):
    """The receiving end of one connection.

    Heads are read into a small scratch buffer, vectors straight into their own memory. While a vector
    is incomplete the kernel is told to wake us only when the rest has come (SO_RCVLOWAT): on a virtual
    clock each segment would otherwise wake us by itself.
    """

    def __init__(self, deliver: Deliver, lose: Lose) -> None:
        self._deliver, self._lose = deliver, lose
        self._scratch = memoryview(bytearray(SCRATCH))
        self._filled = 0
        self._head: Head | None = None
        self._vector: Vector = _NOTHING
        self._body = memoryview(b"")
        self._received = 0
        self._low_water = 1
        self._peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._socket: socket.socket = transport.get_extra_info("socket")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch[self._filled :] if self._head is None else self._body[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._head is not None:
            self._received += nbytes
            self._finish_vector()
            return
        self._filled += nbytes
        try:
            self._read_scratch()
        except (BadFrame, ValueError) as error:
            self._transport.abort()
            self._lose(self._peer or "an unknown node", str(error))

    def _read_scratch(self) -> None:
        """Take every frame that the scratch buffer holds, and begin the one that it holds in part."""
        start = 0
        while (found := unpack(self._scratch[start : self._filled])) is not None:
            head, length = found
            start += length
            if not head.payload:
                self._arrived(head, _NOTHING)
                continue
            self._vector = np.empty(head.payload // 4, np.float32)
            self._body = memoryview(self._vector).cast("B")
            have = min(head.payload, self._filled - start)
            self._body[:have] = self._scratch[start : start + have]
            start += have
            self._head, self._received = head, have
            if have < head.payload:
                break
            self._finish_vector()
        left = self._filled - start
        self._scratch[:left] = bytes(self._scratch[start : self._filled])
        self._filled = left
        if self._head is not None:
            self._wake_when_rest_is_in()

    def _finish_vector(self) -> None:
        head = self._head
        if head is None or self._received < head.payload:
            self._wake_when_rest_is_in()
            return
        vector, self._vector, self._head = self._vector, _NOTHING, None
        self._arrived(head, vector)
        self._set_low_water(1)

    def _wake_when_rest_is_in(self) -> None:
        assert self._head is not None
        self._set_low_water(min(self._head.payload - self._received, LARGEST_WAKE))

    def _set_low_water(self, size: int) -> None:
        if size != self._low_water:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
            self._low_water = size

    def _arrived(self, head: Head, vector: Vector) -> None:
        if head.tag == HELLO:
            self._peer = str(head.meta["name"])
        elif not self._peer:
            raise BadFrame("the first frame of a connection must be a hello")
        else:
            self._deliver(self._peer, head, vector)

    def connection_lost(self, error: Exception | None) -> None:
        if self._peer:
            self._lose(self._peer, str(error) if error else "it closed the connection")


class Outgoing:
    """The sending end of one connection. Frames of concurrent senders go out one after the other."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self._socket, self._peer = sock, peer
        self._turn = asyncio.Lock()

    async def send(self, head: bytes, vector: Vector | None) -> None:
        """Hand a frame to the kernel; returns when the last byte is in its buffer.

        PeerLost when the connection is gone. A cancelled send leaves half a frame, so it closes the
        connection.
        """
        async with self._turn:
            body = memoryview(vector).cast("B") if vector is not None and vector.size else memoryview(b"")
            whole = False
            try:
                sent = self._try(head, body)
                if sent < len(head):
                    await asyncio.get_running_loop().sock_sendall(self._socket, head[sent:])
                    sent = len(head)
                if sent < len(head) + len(body):
                    await asyncio.get_running_loop().sock_sendall(self._socket, body[sent - len(head) :])
                whole = True
            except OSError as error:
                raise PeerLost(self._peer, error.strerror or str(error)) from error
            finally:
                if not whole:
                    self._socket.close()

    def _try(self, head: bytes, body: memoryview) -> int:
        """One system call for the whole frame, where the kernel's buffer has room for it."""
        try:
            return self._socket.sendmsg([head, body])
        except BlockingIOError:
            return 0


class Transport:
    """A node's connections to its peers."""

    def __init__(self, name: str, addresses: dict[str, str], tcp: Tcp, deliver: Deliver, lose: Lose) -> None:
        self._name, self._addresses, self._tcp = name, addresses, tcp
        self._deliver, self._lose = deliver, lose
        self._outgoing: dict[tuple[str, bool], asyncio.Future[Outgoing]] = {}
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Accept connections from now on."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        configure(sock, self._tcp)  # accepted connections inherit it
        sock.bind((self._addresses[self._name], PORT))
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Incoming(self._deliver, self._lose), sock=sock, backlog=1024
        )

    async def connect(self, peer: str) -> None:
        """Open both connections to a peer ahead of their first use."""
        await asyncio.gather(self._connection(peer, True), self._connection(peer, False))

    async def send(self, peer: str, head: bytes, vector: Vector | None) -> None:
        """Send a frame to a peer. PeerLost when it cannot be reached."""
        connection = await self._connection(peer, vector is not None)
        await connection.send(head, vector)

    async def _connection(self, peer: str, bulk: bool) -> Outgoing:
        ready = self._outgoing.get((peer, bulk))
        if ready is None:
            ready = asyncio.ensure_future(self._open(peer))
            self._outgoing[peer, bulk] = ready
        return ready.result() if ready.done() else await asyncio.shield(ready)

    async def _open(self, peer: str) -> Outgoing:
        sock = socket.socket()
        sock.setblocking(False)
        configure(sock, self._tcp)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (self._addresses[peer], PORT))
        except OSError as error:
            sock.close()
            raise PeerLost(peer, error.strerror or str(error)) from error
        connection = Outgoing(sock, peer)
        await connection.send(pack(HELLO, 0, 0.0, {"name": self._name}, None), None)
        return connection
