"""Frames over TCP on asyncio: connections, their settings, and what becomes of them.

Every pair of nodes that talks has, per direction, a connection for vectors and one for small messages,
so that a word never queues behind a model. A connection carries frames one way; the other way carries
acknowledgements. Nothing here knows what a frame means.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from testbed.api import PeerLost, Vector
from testbed.runtime.frames import HELLO, SHORT, Head, pack
from testbed.runtime.incoming import Expectation, Incoming
from testbed.spec.run import Tcp

PORT = 7000
"""of the first node; each further one has the next."""
TCP_NOTSENT_LOWAT = 25
LINGER = struct.pack("ii", 1, 0)
"""A closed connection is reset."""

Deliver = Callable[[str, Head, Vector], None]
Lose = Callable[[str, str], None]


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


class Outgoing:
    """The sending end of one connection. Frames of concurrent senders go out one after the other."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self._socket, self._peer = sock, peer
        self._turn = asyncio.Lock()
        self._expectation = Expectation()
        self._unsent = 0

    async def send(self, head: bytes, vector: Vector | None, words: Outgoing | None = None) -> None:
        """Hand a frame to the kernel; returns when the last byte is in its buffer.

        `words` is the connection for small messages, over which a frame is announced that is shorter than
        the receiver expects. PeerLost when the connection is gone. A cancelled send leaves half a frame,
        so it closes the connection.
        """
        async with self._turn:
            body = vector.data.cast("B") if vector is not None and vector.size else memoryview(b"")
            self._leave_room(len(head) + len(body))
            if words is not None and len(head) + len(body) < self._expectation.length:
                await words.send(pack(SHORT, self._expectation.count, 0.0, None, None), None)
            whole = False
            try:
                await self._hand_over(head, body)
                whole = True
            except OSError as error:
                raise PeerLost(self._peer, error.strerror or str(error)) from error
            finally:
                if not whole:
                    self._socket.close()
            self._expectation.saw(len(head) + len(body))

    def _leave_room(self, length: int) -> None:
        """Let about one frame wait unsent in the kernel and no more: senders feel a slow link at once."""
        if length > self._unsent:
            self._unsent = length
            self._socket.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, length)

    def reset(self) -> None:
        """Close at once; the peer is told by a reset, and what was unsent is lost."""
        if self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            self._socket.close()

    def greeted(self) -> None:
        """The hello is not counted among the frames."""
        self._expectation = Expectation()

    async def _hand_over(self, head: bytes, body: memoryview) -> None:
        """One system call for the whole frame, where the kernel's buffer has room for it."""
        try:
            sent = self._socket.sendmsg([head, body])
        except BlockingIOError:
            sent = 0
        if sent < len(head):
            await asyncio.get_running_loop().sock_sendall(self._socket, head[sent:])
            sent = len(head)
        if sent < len(head) + len(body):
            await asyncio.get_running_loop().sock_sendall(self._socket, body[sent - len(head) :])


class Transport:
    """A node's connections to its peers."""

    def __init__(
        self, name: str, addresses: dict[str, tuple[str, int]], tcp: Tcp, deliver: Deliver, lose: Lose
    ) -> None:
        self._name, self._addresses, self._tcp = name, addresses, tcp
        self._deliver, self._tell_lost = deliver, lose
        self._outgoing: dict[tuple[str, bool], asyncio.Future[Outgoing]] = {}
        self._bulk: dict[str, Incoming] = {}
        self._early: dict[str, list[int]] = {}
        self._incoming: list[Incoming] = []
        self._lost: dict[str, str] = {}
        self._server: asyncio.Server | None = None

    def _lose(self, peer: str, why: str) -> None:
        self._lost[peer] = why
        self._tell_lost(peer, why)

    def _accept(self) -> Incoming:
        incoming = Incoming(self._take, self._lose, self._greet)
        self._incoming.append(incoming)
        return incoming

    async def listen(self) -> None:
        """Accept connections from now on."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        configure(sock, self._tcp)  # accepted connections inherit it
        sock.bind(self._addresses[self._name])
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, sock=sock, backlog=1024)

    async def connect(self, peer: str) -> None:
        """Open both connections to a peer ahead of their first use."""
        await self._connection(peer, True)
        await self._connection(peer, False)

    async def send(self, peer: str, head: bytes, vector: Vector | None) -> None:
        """Send a frame to a peer. PeerLost when it cannot be reached."""
        if peer not in self._addresses:
            raise PeerLost(peer, f"no such node; there are {', '.join(self._addresses)}")
        if peer in self._lost:
            raise PeerLost(peer, self._lost[peer])
        words = await self._connection(peer, False)
        if vector is None:
            await words.send(head, None)
        else:
            bulk = await self._connection(peer, True)
            await bulk.send(head, vector, words)

    def die(self) -> None:
        """Reset every connection, as if this process had been killed."""
        if self._server is not None:
            self._server.close()
        for ready in self._outgoing.values():
            if ready.done() and not ready.cancelled() and ready.exception() is None:
                ready.result().reset()
        for incoming in self._incoming:
            incoming.reset()

    def _greet(self, peer: str, bulk: bool, incoming: Incoming) -> None:
        if bulk:
            self._bulk[peer] = incoming
            for number in self._early.pop(peer, []):
                incoming.expect_short(number)

    def _take(self, sender: str, head: Head, vector: Vector) -> None:
        if head.tag == SHORT:
            if sender in self._bulk:
                self._bulk[sender].expect_short(head.version)
            else:  # it has overtaken the other connection's hello
                self._early.setdefault(sender, []).append(head.version)
        else:
            self._deliver(sender, head, vector)

    async def _connection(self, peer: str, bulk: bool) -> Outgoing:
        ready = self._outgoing.get((peer, bulk))
        if ready is None:
            ready = asyncio.ensure_future(self._open(peer, bulk))
            self._outgoing[peer, bulk] = ready
        return ready.result() if ready.done() else await asyncio.shield(ready)

    async def _open(self, peer: str, bulk: bool) -> Outgoing:
        sock = socket.socket()
        sock.setblocking(False)
        configure(sock, self._tcp)
        try:
            await asyncio.get_running_loop().sock_connect(sock, self._addresses[peer])
        except OSError as error:
            sock.close()
            raise PeerLost(peer, error.strerror or str(error)) from error
        connection = Outgoing(sock, peer)
        await connection.send(pack(HELLO, 0, 0.0, {"name": self._name, "bulk": bulk}, None), None)
        connection.greeted()
        return connection
