"""One node's connections over the simulated network, and what of TCP decides how long a message takes.

To each peer there is a connection for vectors and one for small messages, as on the real transport. A
connection carries one message after the other. A message leaves when its last byte is through the slowest
port, and arrives a propagation delay later. With slow start a window leaves per round trip, and what others
keep in the queues holds up bytes and acknowledgements: `testbed.engines.sim.window` has the rules.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

import numpy as np

from testbed.api import PeerLost, Vector
from testbed.engines.sim.window import Window
from testbed.engines.sim.wires import Wires, on_the_wire
from testbed.runtime.activity import Activities
from testbed.runtime.frames import Head, unpack
from testbed.spec.run import RunSpec, Tcp

STRIDE = 16
"""A connection that fills its pipe sends at most this many pieces of a message, so that huge ones stay cheap."""
_NOTHING: Vector = np.empty(0, np.float32)

Deliver = Callable[[str, Head, Vector], None]
Lose = Callable[[str, str], None]


class Connection:
    """One direction between two nodes."""

    def __init__(self, wires: Wires, here: str, there: str, tcp: Tcp) -> None:
        self.ports, self.delay = wires.paths.path(here, there)
        self.back, back_delay = wires.paths.path(there, here)
        self.round_trip = self.delay + back_delay
        capacities = wires.paths.capacities
        narrow = min(self.ports, key=capacities.__getitem__, default=None)
        pipe = math.inf
        if narrow is not None and capacities[narrow] < math.inf:
            pipe = capacities[narrow] * self.round_trip + wires.paths.queues[narrow]
        self.window = Window(self.round_trip, pipe, tcp.congestion, tcp.slow_start_after_idle)
        self.turn = asyncio.Lock()
        """Held by the message that leaves."""
        self.waiting = 0.0
        """bytes of the messages that wait for their turn."""
        self.leaving: asyncio.Task[None] | None = None
        self.opened = False
        self.last_used = math.inf
        """seconds; when the last byte left."""

    @property
    def bursts(self) -> bool:
        """Whether its queue runs empty each round."""
        return not self.window.full

    def in_queue(self, left: float, rate: float) -> float:
        """Bytes on the wire that stand before the narrowest port, while `left` of a piece leave with `rate`.

        A window that is no burst is under way all the time, and what propagates does not stand.
        """
        if self.window.full:
            return max(0.0, min(left, on_the_wire(self.window.size) - rate * self.round_trip))
        return left + on_the_wire(min(self.window.room, self.waiting))


class SimCarrier:
    """`testbed.runtime.node.Carrier` of one node. `others` holds every node's carrier by name."""

    def __init__(
        self, name: str, hosts: Mapping[str, str], wires: Wires, run: RunSpec, others: dict[str, SimCarrier],
        deliver: Deliver, lose: Lose,
    ) -> None:  # fmt: skip
        self._name, self._hosts, self._wires, self._others = name, hosts, wires, others
        self._slow_start, self._tcp = run.sim.slow_start, run.tcp
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
            found = self._connections[peer, bulk] = Connection(self._wires, here, there, self._tcp)
        return found

    async def send(self, peer: str, head: bytes, vector: Vector | None) -> None:
        """Returns when every earlier message of the connection has left and this one is leaving."""
        if peer not in self._hosts:
            raise PeerLost(peer, f"no such node; there are {', '.join(self._hosts)}")
        line = self._connection(peer, vector is not None)
        size = len(head) + (0 if vector is None else vector.nbytes)
        line.waiting += size
        try:
            await line.turn.acquire()
        finally:
            line.waiting -= size
        try:
            # The connection for small messages is there before the first vector leaves.
            for needed in (self._connection(peer, False), line):
                if peer not in self._lost and not needed.opened:
                    await asyncio.sleep(line.round_trip)
                    if self._others[peer]._dead:
                        raise PeerLost(peer, "it refuses the connection")
                    needed.opened = True
            if peer in self._lost:
                raise PeerLost(peer, self._lost[peer])
        except BaseException:
            line.turn.release()
            raise
        line.leaving = self.leaving.start(self._leave(line, peer, head, vector))

    async def _leave(self, line: Connection, peer: str, head: bytes, vector: Vector | None) -> None:
        size, held_up = len(head) + (0 if vector is None else vector.nbytes), 0.0
        try:
            if self._slow_start:
                held_up = await self._in_rounds(line, size, small=vector is None)
            else:
                await self._wires.through(line.ports, size)
        finally:
            line.turn.release()
        loop = asyncio.get_running_loop()
        line.last_used = loop.time()
        loop.call_later(line.delay + held_up, self._others[peer].take, self._name, head, vector)

    async def _in_rounds(self, line: Connection, size: float, small: bool) -> float:
        """A window each round trip, until acknowledgements come as fast as bytes leave.

        Returns for how many seconds the last byte stands behind what others have in the queues.
        """
        loop, window, wires, left = asyncio.get_running_loop(), line.window, self._wires, size
        window.resume(loop.time(), line.last_used)
        while left > 0:
            if not window.room:
                await self._next_round(line, small)
            piece = window.room if not window.full else max(window.room, size / STRIDE)
            piece = min(left, piece)
            window.use(piece)
            await wires.through(line.ports, piece, line)
            left -= piece
        return window.ahead

    async def _next_round(self, line: Connection, small: bool) -> None:
        """When the first byte's acknowledgement is back, held up by what stands in the queues on its way."""
        loop, window, full = asyncio.get_running_loop(), line.window, False
        if window.begun > -math.inf:
            await _until(window.begun + window.ahead + line.delay)
            full = loop.time() >= window.back
            await _until(window.back)
            window.acknowledged()
        window.begin(loop.time(), self._wires.queueing(line.ports, line, bursts=small), full)
        loop.call_at(window.begun + window.ahead + line.delay, self._acknowledge, line, window.begun)

    def _acknowledge(self, line: Connection, begun: float) -> None:
        """The first byte of the round is there; its acknowledgement sets out."""
        if line.window.begun == begun:
            line.window.late = self._wires.queueing(line.back, line, bursts=True)

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


async def _until(when: float) -> None:
    rest = when - asyncio.get_running_loop().time()
    if rest > 0:
        await asyncio.sleep(rest)
