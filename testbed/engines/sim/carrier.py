"""The simulated network: messages as flows over the same network model.

A connection from one node to another carries one message at a time, in order; small messages have one of
their own, as on the real transport. A message is its bytes with the headers of full Ethernet frames. It
leaves when its last byte is through the slowest port, and arrives a propagation delay later. With slow start
a window is sent per round trip, doubling from ten segments until the pipe is full.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from itertools import pairwise

import numpy as np

from testbed.api import PeerLost, Vector
from testbed.engines.sim.fluid import Flow, Fluid
from testbed.network.model import Network
from testbed.network.routes import site_paths
from testbed.runtime.activity import in_background
from testbed.runtime.frames import unpack
from testbed.runtime.node import RunningNode
from testbed.spec.run import RunSpec

SEGMENT, FRAME = 1448, 1514
"""bytes of payload in a full TCP segment with timestamps, and of its Ethernet frame."""
FIRST_WINDOW = 10 * SEGMENT
"""bytes; RFC 6928."""
SMALLEST_TIMEOUT = 0.2
"""seconds; Linux's minimum of the retransmission timeout, added to a round trip."""
_NOTHING: Vector = np.empty(0, np.float32)


class Paths:
    """Ports and delays of a network. A host's own link to its router is a port for each direction."""

    def __init__(self, network: Network) -> None:
        self.capacities: list[float] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._delays: list[float] = []
        self._network = network
        self._site = {host: site for site in network.sites for host in site.hosts}
        for site in network.sites:
            for host in site.hosts:
                self._add((host, ""), site.lan.rate, site.lan.delay)
                self._add(("", host), site.lan.rate, site.lan.delay)
        for link in network.links:
            self._add((link.a, link.b), link.forward.rate, link.forward.delay)
            self._add((link.b, link.a), link.backward.rate, link.backward.delay)
        self._found: dict[tuple[str, str], tuple[tuple[int, ...], float]] = {}

    def _add(self, ends: tuple[str, str], rate: float | None, delay: float) -> None:
        self._numbers[ends] = len(self.capacities)
        self.capacities.append(math.inf if rate is None else rate / 8)
        self._delays.append(delay)

    def path(self, source: str, target: str) -> tuple[tuple[int, ...], float]:
        """Ports on the way and the one-way delay in seconds; nothing and none within a host."""
        found = self._found.get((source, target))
        if found is None:
            if source == target:
                return (), 0.0
            sites = site_paths(self._network)[self._site[source].name][self._site[target].name]
            hops = [(source, ""), *pairwise(sites), ("", target)]
            ports = tuple(self._numbers[hop] for hop in hops)
            found = self._found[source, target] = ports, sum(self._delays[port] for port in ports)
        return found


class Connection:
    """One direction between two nodes: its window, and the messages that wait."""

    def __init__(self, ports: tuple[int, ...], delay: float, round_trip: float) -> None:
        self.ports, self.delay, self.round_trip = ports, delay, round_trip
        self.window = float(FIRST_WINDOW)
        self.last_used = -math.inf
        self.queue: deque[asyncio.Future[None]] = deque()
        self.busy = False
        self.opened = False


class Wires:
    """All flows of a run, and the one timer that ends them."""

    def __init__(self, run: RunSpec, hosts: dict[str, str]) -> None:
        self.paths = Paths(run.network)
        self.fluid = Fluid(self.paths.capacities)
        self.run, self.hosts = run, hosts
        self.nodes: dict[str, RunningNode] = {}
        self.dead: set[str] = set()
        self.sent_bytes = 0.0
        self.events = 0
        self._loop = asyncio.get_running_loop()
        self._ends: dict[Flow, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._marked = False

    def mark(self) -> None:
        """Flows have changed: look again, once for all changes of this moment."""
        if not self._marked:
            self._marked = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._marked = False
        for flow in self.fluid.advance(self._loop.time()):
            self.events += 1
            future = self._ends.pop(flow)
            if not future.done():
                future.set_result(None)
        due = self.fluid.next_completion()
        if due != self._due or self._timer is None:
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = None if due == math.inf else self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer, self._due = None, math.inf
        self._look()

    async def through(self, ports: tuple[int, ...], size: float) -> None:
        """Until that many bytes are through all ports."""
        if not ports or size <= 0:
            return
        flow = self.fluid.start(self._loop.time(), ports, size)
        future = self._ends[flow] = self._loop.create_future()
        self.sent_bytes += size
        self.mark()
        try:
            await future
        finally:
            if self._ends.pop(flow, None) is not None:
                self.fluid.stop(self._loop.time(), flow)
                self.mark()


class SimCarrier:
    """One node's connections over the simulated network."""

    def __init__(self, name: str, wires: Wires) -> None:
        self._name, self._wires = name, wires
        self._open: dict[tuple[str, bool], Connection] = {}
        self._lost: dict[str, str] = {}

    def connect(self, peer: str) -> None:
        """Have both connections open before the clock starts."""
        for bulk in (False, True):
            self._connection(peer, bulk).opened = True

    def _connection(self, peer: str, bulk: bool) -> Connection:
        found = self._open.get((peer, bulk))
        if found is None:
            hosts = self._wires.hosts
            ports, delay = self._wires.paths.path(hosts[self._name], hosts[peer])
            back = self._wires.paths.path(hosts[peer], hosts[self._name])[1]
            found = self._open[peer, bulk] = Connection(ports, delay, delay + back)
        return found

    def lose(self, peer: str, why: str) -> None:
        self._lost[peer] = why

    async def send(self, peer: str, head: bytes, vector: Vector | None) -> None:
        """Returns when the message is the one that leaves next, or is leaving."""
        if peer not in self._wires.hosts:
            raise PeerLost(peer, f"no such node; there are {', '.join(self._wires.hosts)}")
        if peer in self._lost:
            raise PeerLost(peer, self._lost[peer])
        line = self._connection(peer, vector is not None)
        if line.busy:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            line.queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._next(line)
                raise
        line.busy = True
        copied = None if vector is None else vector.copy()
        in_background(self._carry(line, peer, head, copied))

    def _next(self, line: Connection) -> None:
        line.busy = False
        while line.queue:
            turn = line.queue.popleft()
            if not turn.done():
                line.busy = True
                turn.set_result(None)
                return

    async def _carry(self, line: Connection, peer: str, head: bytes, vector: Vector | None) -> None:
        loop = asyncio.get_running_loop()
        if not line.opened:
            line.opened = True
            await asyncio.sleep(line.round_trip)
        size = len(head) + (0 if vector is None else vector.nbytes)
        if line.ports and self._wires.run.sim.slow_start:
            await self._in_windows(line, size)
        else:
            await self._wires.through(line.ports, wire_bytes(size))
        line.last_used = loop.time()
        self._next(line)
        if self._name not in self._wires.dead:
            loop.call_later(line.delay, self._arrive, peer, head, vector)

    async def _in_windows(self, line: Connection, size: float) -> None:
        """A window each round trip, until a window takes longer than that to send."""
        loop = asyncio.get_running_loop()
        idle = loop.time() - line.last_used - line.round_trip
        timeout = line.round_trip + SMALLEST_TIMEOUT
        if self._wires.run.tcp.slow_start_after_idle and idle > timeout and line.last_used >= 0:
            line.window = max(FIRST_WINDOW, line.window / 2 ** min(60, int(idle / timeout)))
        left = size
        while left > 0:
            begun = loop.time()
            piece = min(left, line.window)
            await self._wires.through(line.ports, wire_bytes(piece))
            left -= piece
            rest = begun + line.round_trip - loop.time()
            if rest <= 0:  # the pipe is full: acknowledgements come as fast as bytes leave
                line.window += piece
                await self._wires.through(line.ports, wire_bytes(left))
                line.window = max(line.window, left)
                return
            line.window += piece
            if left > 0:
                await asyncio.sleep(rest)

    def _arrive(self, peer: str, head: bytes, vector: Vector | None) -> None:
        if peer in self._wires.dead:
            return
        found = unpack(memoryview(head))
        assert found is not None
        self._wires.events += 1
        self._wires.nodes[peer].deliver(self._name, found[0], _NOTHING if vector is None else vector)

    def die(self) -> None:
        """Reset every connection: peers that one was open to hear of it a delay later."""
        self._wires.dead.add(self._name)
        for name, node in self._wires.nodes.items():
            carrier = node.carrier
            assert isinstance(carrier, SimCarrier)
            if name != self._name and (carrier.knows(self._name) or self.knows(name)):
                delay = self._connection(name, False).delay
                asyncio.get_running_loop().call_later(delay, carrier.told_lost, node, self._name)

    def knows(self, peer: str) -> bool:
        """Whether a connection to the peer was ever opened."""
        return (peer, False) in self._open or (peer, True) in self._open

    def told_lost(self, node: RunningNode, peer: str) -> None:
        """The peer's reset has arrived."""
        self.lose(peer, "its process ended")
        node.lose(peer, "its process ended")


def wire_bytes(size: float) -> float:
    """Bytes on the wire of a message: a full frame's share of headers."""
    return size * FRAME / SEGMENT
