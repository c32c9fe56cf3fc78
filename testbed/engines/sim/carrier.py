"""One node's connections over the simulated network, with what of TCP decides how long a message takes.

To each peer there is a connection for vectors and one for small messages, as on the real transport. A
connection carries one message after the other. A message leaves when its last byte is through the slowest
port, and arrives a propagation delay later. With slow start a window is sent per round trip, growing by what
was acknowledged, until the pipe is full.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

import numpy as np

from testbed.api import PeerLost, Vector
from testbed.engines.sim.wires import SEGMENT, Wires
from testbed.network.model import SMALLEST_QUEUE
from testbed.runtime.activity import Activities
from testbed.runtime.frames import Head, unpack
from testbed.spec.run import RunSpec

FIRST_WINDOW = 10 * SEGMENT
"""bytes; RFC 6928."""
SMALLEST_TIMEOUT = 0.2
"""seconds; Linux's minimum of the retransmission timeout, which comes on top of the round trip."""
_NOTHING: Vector = np.empty(0, np.float32)

Deliver = Callable[[str, Head, Vector], None]
Lose = Callable[[str, str], None]


class Connection:
    """One direction between two nodes."""

    def __init__(self, ports: tuple[int, ...], delay: float, round_trip: float, rate: float) -> None:
        self.ports, self.delay, self.round_trip = ports, delay, round_trip
        product = rate * round_trip
        self.pipe = max(FIRST_WINDOW, product + max(SMALLEST_QUEUE, product))
        """bytes that fit under way and into the queue in front of the slowest port; more are lost."""
        self.turn = asyncio.Lock()
        """Held by the message that leaves."""
        self.leaving: asyncio.Task[None] | None = None
        self.opened = False
        self.window = float(FIRST_WINDOW)
        """bytes that may be under way."""
        self.last_used = math.inf
        """seconds; when the last byte left."""


class SimCarrier:
    """`testbed.runtime.node.Carrier` of one node. `others` holds every node's carrier by name."""

    def __init__(
        self, name: str, hosts: Mapping[str, str], wires: Wires, run: RunSpec, others: dict[str, SimCarrier],
        deliver: Deliver, lose: Lose,
    ) -> None:  # fmt: skip
        self._name, self._hosts, self._wires, self._others = name, hosts, wires, others
        self._slow_start, self._restart = run.sim.slow_start, run.tcp.slow_start_after_idle
        self._deliver, self._tell_lost = deliver, lose
        self._connections: dict[tuple[str, bool], Connection] = {}
        self._lost: dict[str, str] = {}
        self._dead = False
        self.arrived = 0
        """messages."""
        self.leaving = Activities()
        others[name] = self

    def connect(self, peer: str) -> None:
        """Have both connections open before the clock starts."""
        for bulk in (False, True):
            self._connection(peer, bulk).opened = True

    def _connection(self, peer: str, bulk: bool) -> Connection:
        found = self._connections.get((peer, bulk))
        if found is None:
            here, there = self._hosts[self._name], self._hosts[peer]
            ports, delay = self._wires.paths.path(here, there)
            back = self._wires.paths.path(there, here)[1]
            rate = min((self._wires.paths.capacities[port] for port in ports), default=math.inf)
            found = self._connections[peer, bulk] = Connection(ports, delay, delay + back, rate)
        return found

    async def send(self, peer: str, head: bytes, vector: Vector | None) -> None:
        """Returns when every earlier message of the connection has left and this one is leaving."""
        if peer not in self._hosts:
            raise PeerLost(peer, f"no such node; there are {', '.join(self._hosts)}")
        line = self._connection(peer, vector is not None)
        await line.turn.acquire()
        try:
            if peer not in self._lost and not line.opened:
                await asyncio.sleep(line.round_trip)
                if self._others[peer]._dead:
                    raise PeerLost(peer, "it refuses the connection")
                line.opened = True
            if peer in self._lost:
                raise PeerLost(peer, self._lost[peer])
        except BaseException:
            line.turn.release()
            raise
        line.leaving = self.leaving.start(self._leave(line, peer, head, vector))

    async def _leave(self, line: Connection, peer: str, head: bytes, vector: Vector | None) -> None:
        try:
            size = len(head) + (0 if vector is None else vector.nbytes)
            if self._slow_start:
                await self._in_windows(line, size)
            else:
                await self._wires.through(line.ports, size)
        finally:
            line.turn.release()
        loop = asyncio.get_running_loop()
        line.last_used = loop.time()
        loop.call_later(line.delay, self._others[peer].take, self._name, head, vector)

    async def _in_windows(self, line: Connection, left: float) -> None:
        """A window each round trip, until a window takes longer than that to send."""
        loop = asyncio.get_running_loop()
        timeout = line.round_trip + SMALLEST_TIMEOUT
        idle = loop.time() - line.last_used - line.round_trip
        if self._restart and idle > timeout:  # halved for each timeout that has passed (RFC 2861)
            line.window = max(FIRST_WINDOW, line.window / 2 ** min(60, int(idle / timeout)))
        while left > 0:
            begun, piece = loop.time(), min(left, line.window)
            await self._wires.through(line.ports, piece)
            left -= piece
            rest = begun + line.round_trip - loop.time()
            if rest <= 0:  # the pipe is full: acknowledgements come as fast as bytes leave
                piece, rest = piece + left, 0.0
                await self._wires.through(line.ports, left)
                left = 0
            line.window = min(line.window + piece, line.pipe)
            if left > 0:
                await asyncio.sleep(rest)

    def take(self, sender: str, head: bytes, vector: Vector | None) -> None:
        """A message has arrived; the vector becomes the receiver's own."""
        if not self._dead:
            found = unpack(memoryview(head))
            assert found is not None
            self.arrived += 1
            self._deliver(sender, found[0], _NOTHING if vector is None else vector.copy())

    def die(self) -> None:
        """Reset every connection; whoever has one hears of it a delay later."""
        self._dead = True
        self.leaving.cancel()
        loop = asyncio.get_running_loop()
        for name, other in self._others.items():
            if name != self._name and (other.knows(self._name) or self.knows(name)):
                loop.call_later(self._connection(name, False).delay, other.lose, self._name)

    def knows(self, peer: str) -> bool:
        """Whether a connection to the peer was ever begun."""
        return (peer, False) in self._connections or (peer, True) in self._connections

    def lose(self, peer: str) -> None:
        """The peer's reset has arrived."""
        why = self._lost[peer] = "its process ended"
        for bulk in (False, True):
            line = self._connections.get((peer, bulk))
            if line is not None and line.leaving is not None:
                line.leaving.cancel()
        if not self._dead:
            self._tell_lost(peer, why)
