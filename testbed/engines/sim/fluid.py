"""Flows that share the ports of a network: how fast each one runs, and when it ends.

Rates are max-min fair at every moment. Pure: time is passed in, and the same calls give the same floats in
every process. Changes are noted, and settled together as soon as somebody asks; what is settled again are
the flows that a change reaches over shared ports, not all of the network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush

EXACT = 1e-9
"""bytes; a flow with no more left than this has ended."""


class Flow:
    """Some bytes under way. Only `Fluid` may change it."""

    __slots__ = ("left", "number", "path", "rate", "since", "stamp")

    def __init__(self, number: int, path: tuple[int, ...], size: float, now: float) -> None:
        self.number, self.path = number, path
        self.left = size
        """bytes, at the time `since`"""
        self.since = now
        self.rate = 0.0
        """bytes/s"""
        self.stamp = 0
        """counts changes of the rate, so that an old end in the queue is known as such"""


class Fluid:
    """All flows over ports of the given capacities in bytes/s; infinite ones limit nobody."""

    def __init__(self, capacities: Sequence[float]) -> None:
        self._capacities = list(capacities)
        self._flows: list[dict[int, Flow]] = [{} for _ in capacities]
        self._all: dict[int, Flow] = {}
        self._ends: list[tuple[float, int, int, Flow]] = []
        self._touched: dict[int, None] = {}
        self._fresh: dict[int, Flow] = {}
        self._number = 0
        self._now = 0.0
        self.settled = 0
        """flows whose rate was worked out again, in all."""

    def start(self, now: float, path: Sequence[int], size: float) -> Flow:
        """A flow of `size` bytes begins."""
        self._now = now
        self._number += 1
        ports = tuple(port for port in path if self._capacities[port] < math.inf)
        flow = Flow(self._number, ports, size, now)
        self._all[flow.number] = flow
        self._fresh[flow.number] = flow
        for port in ports:
            self._flows[port][flow.number] = flow
            self._touched[port] = None
        return flow

    def stop(self, now: float, flow: Flow) -> float:
        """Take a flow out before its end; the bytes that were left."""
        self._now = now
        self._catch_up(flow)
        self._take_out(flow)
        return flow.left

    def set_capacity(self, now: float, port: int, capacity: float) -> None:
        """Change a finite port to another finite rate, which may be 0."""
        self._now = now
        self._capacities[port] = capacity
        self._touched[port] = None

    def rate(self, flow: Flow) -> float:
        """Bytes/s at this moment."""
        self._settle()
        return flow.rate

    def left(self, now: float, flow: Flow) -> float:
        """Bytes that are still to come."""
        return max(0.0, flow.left - flow.rate * (now - flow.since)) if flow.rate < math.inf else 0.0

    def next_completion(self) -> float:
        """When the next flow ends; infinite if none does."""
        self._settle()
        while self._ends:
            when, _, stamp, flow = self._ends[0]
            if flow.number in self._all and flow.stamp == stamp:
                return when
            heappop(self._ends)
        return math.inf

    def advance(self, now: float) -> list[Flow]:
        """Take out and return the flows that have ended by `now`, in the order of their ends and starts."""
        ended: list[Flow] = []
        while self.next_completion() <= now:
            flow = heappop(self._ends)[3]
            self._now = max(self._now, min(now, flow.since + (flow.left / flow.rate if flow.rate else 0.0)))
            ended.append(flow)
            # Flows that end at the very same moment are taken together, and settled once.
            same = self._now
            while self._ends and self._ends[0][0] <= same + 1e-12:
                _, _, stamp, other = heappop(self._ends)
                if other.number in self._all and other.stamp == stamp and other is not flow:
                    ended.append(other)
                    self._take_out(other)
            self._take_out(flow)
        self._now = now
        return ended

    def _take_out(self, flow: Flow) -> None:
        self._all.pop(flow.number, None)
        self._fresh.pop(flow.number, None)
        for port in flow.path:
            self._flows[port].pop(flow.number, None)
            self._touched[port] = None

    def _catch_up(self, flow: Flow) -> None:
        if self._now > flow.since:
            if flow.rate < math.inf:
                flow.left = max(0.0, flow.left - flow.rate * (self._now - flow.since))
            flow.since = self._now

    def _settle(self) -> None:
        """Work out the rates of every flow that a change reaches over ports."""
        if not self._touched and not self._fresh:
            return
        flows = dict(self._fresh)
        ports = dict(self._touched)
        reach = list(ports)
        for flow in self._fresh.values():
            reach += [port for port in flow.path if port not in ports]
            ports.update(dict.fromkeys(flow.path))
        while reach:
            for flow in self._flows[reach.pop()].values():
                if flow.number in flows and flow.number not in self._fresh:
                    continue
                flows[flow.number] = flow
                for port in flow.path:
                    if port not in ports:
                        ports[port] = None
                        reach.append(port)
        self._touched, self._fresh = {}, {}
        self.settled += len(flows)
        for flow, rate in self._fill([flows[number] for number in sorted(flows)], sorted(ports)):
            if rate != flow.rate or flow.stamp == 0:
                self._catch_up(flow)
                flow.rate = rate
                flow.stamp += 1
                if flow.left <= EXACT or rate == math.inf:
                    heappush(self._ends, (self._now, flow.number, flow.stamp, flow))
                elif rate > 0:
                    heappush(self._ends, (self._now + flow.left / rate, flow.number, flow.stamp, flow))

    def _fill(self, flows: list[Flow], ports: list[int]) -> list[tuple[Flow, float]]:
        """Water-filling: the port that leaves least to each of its flows decides first."""
        left = {port: self._capacities[port] for port in ports}
        count = {port: len(self._flows[port]) for port in ports}
        queue = [(left[port] / count[port], port) for port in ports if count[port]]
        queue.sort()
        open_flows = {flow.number for flow in flows if flow.path}
        found = [(flow, math.inf) for flow in flows if not flow.path]
        while queue:
            level, port = heappop(queue)
            if not count[port]:
                continue
            now = max(0.0, left[port]) / count[port]
            if now > level:  # others took less than this level from it
                heappush(queue, (now, port))
                continue
            for number, flow in self._flows[port].items():
                if number in open_flows:
                    open_flows.discard(number)
                    found.append((flow, level))
                    for other in flow.path:
                        left[other] -= level
                        count[other] -= 1
        return found
