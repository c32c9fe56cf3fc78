"""Flows that share the ports of a network: how fast each one runs, and when it ends.

Rates are max-min fair at every moment. The room is pure: time is passed in, and the same calls give the same
floats in every process. It may not read a clock, wait, draw numbers, or know what the bytes are for.

Flows with the same shared ports and the same limit always run at the same rate. They are one bundle, and a
bundle counts the bytes per flow once for all of them. A port that only one flow crosses is a limit of that
flow. Changes are noted, and settled together as soon as somebody asks.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

from testbed.engines.sim.waterfill import Key, Port, Route, ripple


class Flow:
    """Some bytes under way. Only `Fluid` may change it."""

    __slots__ = ("bundle", "cap", "end", "ended", "left", "number", "path")

    def __init__(self, number: int, path: Sequence[int], size: float, cap: float) -> None:
        self.number = number
        self.path = tuple(sorted(path))
        self.cap = cap
        """bytes/s"""
        self.ended = math.inf
        """seconds; when the last byte was through, or the flow was stopped"""
        self.bundle: Bundle | None = None
        self.left = size
        """bytes, as long as the flow is in no bundle"""
        self.end = math.inf
        """bytes; the reading of its bundle at which it ends"""


class _Meter:
    """Bytes per flow over time."""

    __slots__ = ("order", "queued", "rate", "service", "since")

    def __init__(self, order: int, now: float, rate: float) -> None:
        self.order = order
        self.rate = rate
        """bytes/s"""
        self.since = now
        """seconds; when the rate was set"""
        self.service = 0.0
        """bytes, at that moment"""
        self.queued = math.inf
        """seconds; the next end that is in the queue"""

    def reading(self, now: float) -> float:
        return self.service + self.rate * (now - self.since) if now > self.since else self.service

    def set_rate(self, now: float, rate: float) -> None:
        self.service = self.reading(now)
        self.since = now
        self.rate = rate

    def when(self) -> float:
        """The time at which the next flow ends."""
        head = self.head()
        if head <= self.service:
            return self.since
        if head == math.inf or self.rate == 0:
            return math.inf
        return self.since + (head - self.service) / self.rate

    def head(self) -> float:
        """The reading at which the next flow ends."""
        raise NotImplementedError

    def take(self, reading: float) -> list[Flow]:
        """The flows that have ended at a reading, and the next one in any case."""
        raise NotImplementedError


class Bundle(_Meter):
    """Flows with the same route and limit. They run at the limit, or at the level of the route if that is less."""

    __slots__ = ("count", "flows", "free", "lane", "limit", "mark", "shift")

    def __init__(self, order: int, now: float, lane: _Lane, limit: float) -> None:
        super().__init__(order, now, limit)
        self.lane = lane
        self.limit = limit
        """bytes/s"""
        self.count = 0
        self.flows: list[tuple[float, int, Flow]] = []
        self.free = limit >= lane.rate
        """whether the route sets the rate; its lane then counts the bytes"""
        self.shift = -lane.reading(now)
        """bytes; what the bundle has counted more than its lane"""
        self.mark = math.inf
        """bytes; the next end that is in the lane's queue, as a reading of the lane"""

    def reading(self, now: float) -> float:
        return self.lane.reading(now) + self.shift if self.free else super().reading(now)

    def add(self, now: float, flow: Flow) -> None:
        flow.bundle = self
        flow.end = self.reading(now) + flow.left
        self.count += 1
        if len(self.flows) > 2 * self.count + 8:
            self.flows = [entry for entry in self.flows if entry[2].bundle is self and entry[2].end == entry[0]]
            heapify(self.flows)
        heappush(self.flows, (flow.end, flow.number, flow))
        if self.free:
            self.enqueue(flow.end - self.shift)

    def enqueue(self, mark: float) -> None:
        """Let the lane know of an end, if it is the next one."""
        if mark < self.mark:
            self.mark = mark
            heappush(self.lane.bundles_by_end, (mark, self.order, self))

    def hold(self, now: float) -> None:
        """The level has risen above the limit."""
        self.service = self.reading(now)
        self.since = now
        self.free = False
        self.mark = math.inf

    def release(self, now: float) -> None:
        """The level has fallen to the limit or below."""
        self.shift = self.reading(now) - self.lane.reading(now)
        self.free = True
        self.queued = math.inf
        self.enqueue(self.head() - self.shift)

    def head(self) -> float:
        while self.flows:
            end, _, flow = self.flows[0]
            if flow.bundle is self and flow.end == end:
                return end
            heappop(self.flows)
        return math.inf

    def take(self, reading: float) -> list[Flow]:
        reading = max(reading, self.head())
        taken = []
        while self.head() <= reading and self.flows:
            taken.append(heappop(self.flows)[2])
        return taken


class _Lane(_Meter):
    """The bundles of a route. It counts the bytes for those without a lower limit."""

    __slots__ = ("bundles", "bundles_by_end", "route")

    def __init__(self, order: int, now: float, route: Route) -> None:
        super().__init__(order, now, math.inf)
        self.route = route
        self.bundles: dict[float, Bundle] = {}
        self.bundles_by_end: list[tuple[float, int, Bundle]] = []

    def adopt(self, now: float) -> list[Bundle]:
        """Take over the level of the route. Gives the bundles that now run at their own limits."""
        limits, level = self.route.limits, self.route.level
        before, after = bisect_left(limits, self.rate), bisect_left(limits, level)
        self.set_rate(now, level)
        held = [self.bundles[limit] for limit in limits[before:after]]
        for bundle in held:
            bundle.hold(now)
        for limit in limits[after:before]:
            self.bundles[limit].release(now)
        return held

    def head(self) -> float:
        queue = self.bundles_by_end
        while queue:
            mark, _, bundle = queue[0]
            if bundle.free and bundle.mark == mark:
                head = bundle.head() - bundle.shift
                if head <= mark:
                    return mark
                bundle.mark = math.inf
                bundle.enqueue(head)
            heappop(queue)
        return math.inf
