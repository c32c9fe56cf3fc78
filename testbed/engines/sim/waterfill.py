"""The max-min fair level of every port: which rate it leaves to the flows that it limits.

A flow runs at the least of its own limit and the levels of its ports. The rates are max-min fair exactly if
every port with a finite level is full and no other port is overfull. A change is therefore settled where it
happens: only ports that break this rule get a new level, and then those whose use this has changed.

Knows nothing of bytes or time, and of flows only how many there are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

Key = tuple[int, ...]

_FULL = 1e-12
"""how far from its capacity a port may be used and still count as full; a fraction of the capacity"""
_EXACT = 1e-14
"""how near to its capacity a new level must bring a port; a fraction of the capacity"""


class Port:
    """One direction of a link, shared by two flows or more."""

    __slots__ = ("capacity", "index", "left", "level", "routes", "stale", "used")

    def __init__(self, index: int, capacity: float) -> None:
        self.index = index
        self.capacity = capacity
        """bytes/s"""
        self.level = math.inf
        """bytes/s of a flow that nothing else limits; infinite while the port is not full"""
        self.used = 0.0
        """bytes/s of all flows"""
        self.routes: dict[Key, Route] = {}
        self.left = 0.0
        """bytes/s not yet given away, while levels are sought"""
        self.stale = False
        """whether `left` has changed since the level was sought"""

    def breaks_rule(self) -> bool:
        slack = _FULL * self.capacity
        return self.used > self.capacity + slack or (self.level < math.inf and self.used < self.capacity - slack)


class Route:
    """All flows over the same shared ports. They differ by their limits only."""

    __slots__ = ("_at", "_below", "_below_sum", "ceiling", "counts", "key", "level", "limits", "open", "ports")
    __slots__ += ("total", "used")

    def __init__(self, ports: Sequence[Port]) -> None:
        self.ports = tuple(ports)
        self.key: Key = tuple(port.index for port in ports)
        self.level = math.inf
        """bytes/s of a flow without a limit of its own"""
        self.used = 0.0
        """bytes/s of all flows"""
        self.total = 0
        self.limits: list[float] = []
        """bytes/s, each once, in rising order"""
        self.counts: dict[float, int] = {}
        # The sums over the limits before a place, which moves with the level that is asked for.
        self._at = 0
        self._below = 0
        self._below_sum = 0.0
        self.open = False
        """whether the level is still sought"""
        self.ceiling = math.inf
        """bytes/s; the least level of the ports whose levels stay as they are"""

    def count(self, limit: float, change: int) -> None:
        """Flows with this limit come (1) or go (-1)."""
        before = self.counts.get(limit, 0)
        place = bisect_left(self.limits, limit)
        if place < self._at:
            self._below += change
            self._below_sum += change * limit
        self.total += change
        if before + change == 0:
            del self.counts[limit], self.limits[place]
            self._at -= place < self._at
        else:
            self.counts[limit] = before + change
            if before == 0:
                self.limits.insert(place, limit)
                self._at += place < self._at
        if self._at == 0:
            self._below_sum = 0.0  # what rounding has left

    def demand(self, level: float) -> tuple[float, int]:
        """Bytes/s that the flows take at a level, and how many of them would take more at a higher one."""
        limits, at = self.limits, self._at
        while at < len(limits) and limits[at] < level:
            self._below += self.counts[limits[at]]
            self._below_sum += self.counts[limits[at]] * limits[at]
            at += 1
        while at and limits[at - 1] >= level:
            at -= 1
            self._below -= self.counts[limits[at]]
            self._below_sum = self._below_sum - self.counts[limits[at]] * limits[at] if at else 0.0
        self._at = at
        free = self.total - self._below
        return (self._below_sum + free * level if free else self._below_sum), free


def _share(port: Port) -> float:
    """The level at which the open routes take all that is left of a port; infinite if they never do.

    The demand is a concave function of the level, made of straight pieces. So a step of Newton's method never
    goes beyond the solution, except from a start to its right, and ends in it after a few pieces.
    """
    if port.left <= 0:
        return 0.0
    routes = [route for route in port.routes.values() if route.open]
    exact = _EXACT * port.capacity
    level, start = port.level, True
    if level == math.inf:
        level = port.left / sum([route.total for route in routes])
    while True:
        gap, slope = port.left, 0
        for route in routes:
            if level < route.ceiling:
                used, free = route.demand(level)
                slope += free
            else:
                used, _ = route.demand(route.ceiling)
            gap -= used
        if gap <= exact and not (start and gap < -exact):
            return level
        if slope:
            level = max(level + gap / slope, 0.0)
        elif gap > 0:
            return math.inf
        else:
            level = port.left / sum([route.total for route in routes])
        start = False


def _fill(region: dict[int, Port]) -> None:
    """New levels for the ports of a region, from the lowest up; all other ports keep theirs."""
    for port in region.values():
        port.left = port.capacity
        port.stale = False
        for route in port.routes.values():
            route.open = True
            route.ceiling = min([other.level for other in route.ports if other.index not in region], default=math.inf)
    queue = [(_share(port) if port.routes else math.inf, index) for index, port in region.items()]
    heapify(queue)
    while queue:
        level, index = queue[0]
        port = region[index]
        if port.stale:
            # Others took less than this level, so what they left can only raise it.
            port.stale = False
            more = any([route.open for route in port.routes.values()])
            heapreplace(queue, (max(level, _share(port)) if more else math.inf, index))
            continue
        heappop(queue)
        port.level = level
        if level < math.inf:
            _close(port, region)


def _close(port: Port, region: dict[int, Port]) -> None:
    """The open routes of a port have their level: what they take is gone for their other ports."""
    for route in port.routes.values():
        if route.open:
            route.open = False
            used, _ = route.demand(min(port.level, route.ceiling))
            for other in route.ports:
                other.left -= used
                other.stale = True


def ripple(routes: dict[Key, Route], ports: dict[int, Port]) -> None:
    """Settle the levels after a change of these routes and ports; both grow by those that it reached."""
    region: dict[int, Port] = {}
    while True:
        for route in routes.values():
            route.level = level = min([port.level for port in route.ports], default=math.inf)
            used, _ = route.demand(level)
            if used != route.used:
                for port in route.ports:
                    port.used += used - route.used
                    ports[port.index] = port
                route.used = used
        for port in region.values():
            port.used = sum([route.used for route in port.routes.values()])  # afresh, so that rounding cannot add up
        broken = [port for index, port in ports.items() if index not in region and port.breaks_rule()]
        if not broken:
            return
        for port in broken:
            region[port.index] = port
            routes.update(port.routes)
        _fill(region)
