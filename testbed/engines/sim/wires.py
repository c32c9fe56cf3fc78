"""The flows of a run on the loop's clock: one timer for whichever ends next."""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

from testbed.engines.sim.fluid import Flow, Fluid
from testbed.engines.sim.paths import Paths
from testbed.engines.sim.window import FRAME, SEGMENT
from testbed.network.model import Network


def on_the_wire(payload: float) -> float:
    """Bytes on the wire of a message's bytes: each carries its share of a full frame's headers."""
    return payload * FRAME / SEGMENT


class Sender(Protocol):
    """Whose transfer it is."""

    @property
    def bursts(self) -> bool:
        """Whether what it has in the queue is soon gone."""
        ...

    def in_queue(self, left: float, rate: float) -> float:
        """Bytes that stand before the narrowest port, while `left` of a transfer leave with `rate` bytes/s."""
        ...


class Wires:
    """Transfers over the ports of a network."""

    def __init__(self, network: Network) -> None:
        self.paths = Paths(network)
        self.carried = [0.0] * len(self.paths.names)
        """bytes on the wire of all transfers that have ended, by port."""
        self.ended = 0
        """flows that have ended."""
        self._fluid = Fluid(self.paths.capacities)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Flow, asyncio.Future[None]] = {}
        self._standing: list[dict[Flow, Sender]] = [{} for _ in self.paths.names]
        self._timer: asyncio.TimerHandle | None = None
        self._marked = False

    async def through(self, ports: tuple[int, ...], payload: float, sender: Sender | None = None) -> None:
        """Until that many bytes of payload are through all ports. Cancelled, the rest is never sent."""
        if not ports or payload <= 0:
            return
        size = on_the_wire(payload)
        flow = self._fluid.start(self._loop.time(), ports, size)
        future = self._waiting[flow] = self._loop.create_future()
        queue = self._standing[min(ports, key=self.paths.capacities.__getitem__)]
        if sender is not None:
            queue[flow] = sender
        self._mark()
        try:
            await future
        finally:
            queue.pop(flow, None)
            if self._waiting.pop(flow, None) is not None:
                size -= self._fluid.stop(self._loop.time(), flow)
                self._mark()
            for port in ports:
                self.carried[port] += size

    def queueing(self, ports: tuple[int, ...], own: Sender, *, bursts: bool) -> float:
        """Seconds that a packet on its way through these ports stands behind what others have in the queues.

        Without `bursts` only what stands there for long counts: a burst shares the port with who comes after.
        """
        now, seconds = self._loop.time(), 0.0
        for port in ports:
            total, most = 0.0, self.paths.queues[port]
            for flow, sender in self._standing[port].items():
                if sender is own or (sender.bursts and not bursts):
                    continue
                total += sender.in_queue(self._fluid.left(now, flow), flow.rate)
                if total >= most:
                    total = most
                    break
            if total:
                seconds += total / self.paths.capacities[port]
        return seconds

    def _mark(self) -> None:
        """Flows have changed: look again, once for all changes of this moment."""
        if not self._marked:
            self._marked = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._marked = False
        for flow in self._fluid.advance(self._loop.time()):
            self.ended += 1
            future = self._waiting.pop(flow)
            if not future.done():
                future.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        due = self._fluid.next_completion()
        self._timer = None if due == math.inf else self._loop.call_at(due, self._look)
