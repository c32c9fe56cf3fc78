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
from testbed.runtime.frames import HELLO, SHORT, Head, pack
from testbed.runtime.incoming import Incoming
from testbed.runtime.outgoing import Outgoing
from testbed.spec.run import Tcp

PORT = 7000
"""of the first node; each further one has the next."""

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


class _InOrder:
    """Vectors of one peer. Each of its connections begins where the one before it was given up.

    That one may still have whole messages under way, so what comes on the next waits for its end.
    """

    def __init__(self, give: Callable[[Head, Vector], None]) -> None:
        self._give = give
        self._current = 1
        """The first connection that has not ended."""
        self._ended: set[int] = set()
        self._held: dict[int, list[tuple[Head, Vector]]] = {}

    def came(self, number: int, head: Head, vector: Vector) -> None:
        """A message on connection `number`."""
        if number == self._current:
            self._give(head, vector)
        else:
            self._held.setdefault(number, []).append((head, vector))

    def ended(self, number: int) -> None:
        """Connection `number` brings no more."""
        self._ended.add(number)
        while self._current in self._ended:
            self._ended.discard(self._current)
            self._current += 1
            for head, vector in self._held.pop(self._current, []):
                self._give(head, vector)


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
        self._vectors: dict[str, _InOrder] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        """Held by the sender of a vector, from one connection to the next."""
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
        words = await self._connection(peer, False)
        if vector is None:
            await words.send(head, None)
            return
        async with self._turns.setdefault(peer, asyncio.Lock()):
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
        if self._bulk.pop((incoming.peer, incoming.number), None) is not None:
            self._vectors_of(incoming.peer).ended(incoming.number)
        if broken or not incoming.number:
            self._lose(incoming.peer or "an unknown node", why)

    def _lose(self, peer: str, why: str) -> None:
        if peer not in self._lost:
            self._lost[peer] = why
            self._tell_lost(peer, why)

    def _vectors_of(self, peer: str) -> _InOrder:
        if peer not in self._vectors:
            self._vectors[peer] = _InOrder(lambda head, vector: self._hand_on(peer, head, vector))
        return self._vectors[peer]

    def _hand_on(self, sender: str, head: Head, vector: Vector) -> None:
        """What the algorithm does with a message, say in an exchange, may fail; the connection has not."""
        try:
            self._deliver(sender, head, vector)
        except Exception as error:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": f"{head.tag!r} from {sender} failed", "exception": error})

    def _take(self, incoming: Incoming, head: Head, vector: Vector) -> None:
        if incoming.number:
            self._vectors_of(incoming.peer).came(incoming.number, head, vector)
            return
        if head.tag != SHORT:
            self._hand_on(incoming.peer, head, vector)
            return
        key = incoming.peer, int(head.meta["bulk"])
        if key in self._bulk:
            self._bulk[key].expect_short(head.version)
        else:
            self._early.setdefault(key, []).append(head.version)

    async def _connection(self, peer: str, bulk: bool) -> Outgoing:
        if peer in self._lost:
            raise PeerLost(peer, self._lost[peer])
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
