"""Frames over TCP on asyncio: connections, their settings, and what becomes of them.

Every pair of nodes that talks has, per direction, a connection for vectors and one for small messages,
so that a word never queues behind a model. A connection carries frames one way; the other way carries
acknowledgements. Nothing here knows what a frame means.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from testbed.api import PeerLost, Vector
from testbed.runtime.activity import Activities
from testbed.runtime.frames import HELLO, SHORT, Head, pack
from testbed.runtime.incoming import LINGER, Expectation, Incoming
from testbed.spec.run import Tcp

PORT = 7000
"""of the first node; each further one has the next."""
TCP_NOTSENT_LOWAT = 25

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

    def __init__(self, sock: socket.socket, peer: str, number: int) -> None:
        self._socket, self._peer = sock, peer
        self.number = number
        """0 for small messages; else which connection for vectors to this peer it is, from 1 on."""
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
            whole = False
            try:
                self._leave_room(len(head) + len(body))
                if words is not None and len(head) + len(body) < self._expectation.length:
                    meta = {"bulk": self.number}
                    await words.send(pack(SHORT, self._expectation.count, 0.0, meta, None), None)
                await self._hand_over(head, body)
                whole = True
            except OSError as error:
                raise PeerLost(self._peer, error.strerror or str(error)) from error
            finally:
                if not whole:
                    self.close()
            self._expectation.saw(len(head) + len(body))

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
        if not self.closed:
            asyncio.get_running_loop().remove_reader(self._socket)
            if reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            self._socket.close()

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
    """A node's connections to its peers.

    The connection for small messages is the peer's life: when it ends, the peer is lost. One for vectors
    that ends takes the message with it that was under way, and the next vector opens another.
    """

    def __init__(
        self, name: str, addresses: dict[str, tuple[str, int]], tcp: Tcp, deliver: Deliver, lose: Lose
    ) -> None:
        self._name, self._addresses, self._tcp = name, addresses, tcp
        self._deliver, self._tell_lost = deliver, lose
        self._outgoing: dict[tuple[str, bool], asyncio.Future[Outgoing]] = {}
        self._opened: dict[str, int] = {}
        """Connections for vectors to each peer so far."""
        self._incoming: dict[Incoming, None] = {}
        self._bulk: dict[tuple[str, int], Incoming] = {}
        self._early: dict[tuple[str, int], list[int]] = {}
        """Announcements that have overtaken their connection's hello."""
        self._finishing = Activities()
        self._lost: dict[str, str] = {}
        self._server: asyncio.Server | None = None

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
            # Half of a small message would cost the connection, and with it the peer.
            await asyncio.shield(self._finishing.start(words.send(head, None)))
        else:
            bulk = await self._connection(peer, True)
            await bulk.send(head, vector, words)

    def die(self) -> None:
        """Reset every connection, as if this process had been killed."""
        if self._server is not None:
            self._server.close()
        for ready in self._outgoing.values():
            if ready.done() and not ready.cancelled() and ready.exception() is None:
                ready.result().close(reset=True)
        for incoming in self._incoming:
            incoming.reset()

    def _accept(self) -> Incoming:
        incoming = Incoming(self._take, self._ended, self._greet)
        self._incoming[incoming] = None
        return incoming

    def _greet(self, incoming: Incoming) -> None:
        if incoming.number:
            key = incoming.peer, incoming.number
            self._bulk[key] = incoming
            for number in self._early.pop(key, []):
                incoming.expect_short(number)

    def _ended(self, incoming: Incoming, why: str, broken: bool) -> None:
        self._incoming.pop(incoming, None)
        self._bulk.pop((incoming.peer, incoming.number), None)
        if broken or not incoming.number:
            self._lose(incoming.peer or "an unknown node", why)

    def _lose(self, peer: str, why: str) -> None:
        if peer not in self._lost:
            self._lost[peer] = why
            self._tell_lost(peer, why)

    def _take(self, sender: str, head: Head, vector: Vector) -> None:
        if head.tag != SHORT:
            self._deliver(sender, head, vector)
            return
        key = sender, int(head.meta["bulk"])
        if key in self._bulk:
            self._bulk[key].expect_short(head.version)
        else:
            self._early.setdefault(key, []).append(head.version)

    async def _connection(self, peer: str, bulk: bool) -> Outgoing:
        ready = self._outgoing.get((peer, bulk))
        if ready is None or (bulk and ready.done() and not ready.exception() and ready.result().closed):
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
        if bulk:
            self._opened[peer] = self._opened.get(peer, 0) + 1
        connection = Outgoing(sock, peer, self._opened[peer] if bulk else 0)
        if not bulk:
            connection.when_it_ends(lambda why: self._lose(peer, why))
        await connection.send(pack(HELLO, 0, 0.0, {"name": self._name, "bulk": connection.number}, None), None)
        connection.greeted()
        return connection
