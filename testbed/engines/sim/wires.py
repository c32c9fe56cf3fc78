"""The flows of a run on the loop's clock: one timer for whichever ends next."""

from __future__ import annotations

import asyncio
import math

from testbed.engines.sim.fluid import Flow, Fluid
from testbed.engines.sim.paths import Paths
from testbed.network.model import Network

SEGMENT, FRAME = 1448, 1514
"""bytes of payload in a full TCP segment with timestamps, and of its Ethernet frame."""


def on_the_wire(payload: float) -> float:
    """Bytes on the wire of a message's bytes: each carries its share of a full frame's headers."""
    return payload * FRAME / SEGMENT


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
        self._timer: asyncio.TimerHandle | None = None
        self._marked = False

    async def through(self, ports: tuple[int, ...], payload: float) -> None:
        """Until that many bytes of payload are through all ports. Cancelled, the rest is never sent."""
        if not ports or payload <= 0:
            return
        size = on_the_wire(payload)
        flow = self._fluid.start(self._loop.time(), ports, size)
        future = self._waiting[flow] = self._loop.create_future()
        self._mark()
        try:
            await future
        finally:
            if self._waiting.pop(flow, None) is not None:
                size -= self._fluid.stop(self._loop.time(), flow)
                self._mark()
            for port in ports:
                self.carried[port] += size

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
