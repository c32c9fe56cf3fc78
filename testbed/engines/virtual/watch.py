"""Following a run inside the guest: port counters at even times, a sign of life, the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from testbed.engines.mininet.shape import port_counters
from testbed.engines.virtual.crew import STAGE_LIMIT, Crew, RunFailed
from testbed.network.plan import Plan
from testbed.runtime.journal import Journal
from testbed.spec.run import RunSpec

SAMPLES_PER_RUN = 40
"""readings of the port counters from start to horizon."""
BEATS_PER_SAMPLE = 5
"""lines to the host between two readings, so that a slow run is not taken for one that hangs."""


class Watch:
    """Samples from the start on; `start` is the guest's monotonic clock then."""

    def __init__(
        self, run: RunSpec, plan: Plan, net: Any, start: float, journal: Journal, say: Callable[..., None]
    ) -> None:
        self._run, self._plan, self._net = run, plan, net
        self._start, self._journal, self._say = start, journal, say
        self._wan = {port.name for port in plan.ports if port.wan}
        self._before = port_counters(net, plan)  # what the probe and the handshakes sent is not the run's
        self.sent_bytes = 0
        """bytes that have left the WAN ports."""

    def now(self) -> float:
        """Seconds since training began."""
        return time.monotonic() - self._start

    def to_the_end(self, crew: Crew) -> None:
        """Until every participant has ended. RunFailed as soon as one fails, dies or overstays."""
        horizon, beats = self._run.horizon.time, SAMPLES_PER_RUN * BEATS_PER_SAMPLE
        beat = 0
        while not all(child.ended for child in crew.children):
            due = horizon * beat / beats if beat <= beats else horizon + STAGE_LIMIT
            if crew.reports(self._start + due) or self.now() < due:
                continue
            if beat > beats:
                missing = [child.name for child in crew.children if not child.ended]
                raise RunFailed(f"still running after the horizon: {', '.join(missing)}")
            if beat % BEATS_PER_SAMPLE == 0:
                self._sample(due)
            self._say("progress", time=due, sent_bytes=self.sent_bytes)
            beat += 1
        self._journal.close()

    def _sample(self, due: float) -> None:
        sent = 0
        for port, count in port_counters(self._net, self._plan).items():
            before = self._before[port]
            size = count.bytes - before.bytes
            sent += size if port in self._wan else 0
            self._journal.write(
                "links", time=due, port=port, bytes=size,
                packets=count.packets - before.packets, drops=count.drops - before.drops,
            )  # fmt: skip
        self.sent_bytes = sent
