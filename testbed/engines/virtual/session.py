"""What happens inside a guest between boot and power-off: network, probe, participants, horizon."""

from __future__ import annotations

import gc
import json
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from testbed.compute.client import host_clock, open_slots
from testbed.engines.mininet.build import address, build, namespace_fd, widen_tcp_memory
from testbed.engines.mininet.fidelity import measure
from testbed.engines.mininet.namespaces import enter
from testbed.engines.mininet.shape import port_counters, shape
from testbed.network.plan import Plan
from testbed.runtime.finder import find_algorithm, make_algorithm
from testbed.runtime.journal import Journal
from testbed.runtime.participant import Pipes, Surroundings, live, places
from testbed.spec.run import RunSpec, from_plain
from testbed.workload.partition import node_stream

STAGE_LIMIT = 120.0
"""virtual seconds for all participants to reach the next stage."""
SAMPLES_PER_RUN = 40
"""readings of the port counters from start to horizon."""

Say = Callable[..., None]


class RunFailed(Exception):
    """The run cannot go on; the message says why."""


@dataclass
class Child:
    """A forked participant."""

    name: str
    pid: int
    down: int


@dataclass
class Crew:
    """All participants, and the pipe on which they report."""

    up: int
    children: list[Child] = field(default_factory=list)
    rest: bytes = b""

    def reports(self, timeout: float) -> list[dict[str, Any]]:
        """What was said within that many virtual seconds; empty when nothing was."""
        if not select.select([self.up], [], [], max(timeout, 0))[0]:
            return []
        *lines, self.rest = (self.rest + os.read(self.up, 1 << 16)).split(b"\n")
        return [json.loads(line) for line in lines]

    def expect(self, state: str) -> None:
        """Wait until every participant is in that state. RunFailed when one fails or is too slow."""
        missing = {child.name for child in self.children}
        limit = time.monotonic() + STAGE_LIMIT
        while missing:
            reports = self.reports(limit - time.monotonic())
            if not reports:
                raise RunFailed(f"not {state} after {STAGE_LIMIT:g} s: {', '.join(sorted(missing))}")
            for report in reports:
                raise_if_failed(report)
                if report["state"] == state:
                    missing.discard(report["node"])

    def tell(self, line: str) -> None:
        """Say the same to every participant."""
        for child in self.children:
            os.write(child.down, line.encode() + b"\n")


def raise_if_failed(report: dict[str, Any]) -> None:
    """Turn a participant's last words into a RunFailed."""
    if report["state"] == "failed":
        raise RunFailed(f"{report['node']}: {report['reason']}\n{report.get('trace', '')}")


def carry_out(order: dict[str, Any], results: Path, say: Say) -> None:
    """The whole of a run inside the guest; `results` is the run's folder."""

    def stage(state: str, **more: object) -> None:
        held, clock = host_clock()
        say(state, held_ns=held, host_ns=clock, **more)

    stage("booted")
    run = from_plain(RunSpec, order["run"])
    plan = from_plain(Plan, order["plan"])
    records = results / "records"
    widen_tcp_memory()
    net = build(plan)
    shape(net, plan)
    stage("built")
    fidelity = measure(net, plan)
    (results / "fidelity.json").write_text(json.dumps(fidelity, indent=1) + "\n")
    stage("probed")
    if (faults := fidelity["degraded"]) and not order["keep_going"]:
        raise RunFailed(f"the network is not what the file says ({len(faults)} faults): {'; '.join(faults[:5])}")
    crew = _fork(run, plan, net, records, order)
    crew.expect("listening")
    crew.tell("connect")
    crew.expect("ready")
    stage("ready")
    start = np.ceil(time.monotonic() + 1.0)
    crew.tell(repr(float(start)))
    stage("training")
    watch = Watch(run, plan, net, float(start), Journal(records, "network"), say)
    watch.to_the_end(crew)
    stage("done", time=watch.now(), sent_bytes=watch.sent_bytes)


def _fork(run: RunSpec, plan: Plan, net: Any, records: Path, order: dict[str, Any]) -> Crew:
    """One process per participant, in its host's namespace, from this warmed one."""
    kind = find_algorithm(run.algorithm.name)
    make_algorithm(run.algorithm.name, run.algorithm.hyper)
    who = places(run, kind.has_server)
    slots = open_slots(2 * len(who), order["dimension"])
    addresses = {place.name: address(net[place.name]) for place in who}
    around = Surroundings(run, addresses, slots, records)
    up_read, up_write = os.pipe()
    crew = Crew(up_read)
    node_stream(run.seed, 0).random()  # numpy loads its generators at first use: once here, not in each child
    gc.collect()
    gc.freeze()
    for place in who:
        down_read, down_write = os.pipe()
        descriptor = namespace_fd(net[place.name])
        pid = os.fork()
        if pid == 0:
            live(around, place, Pipes(up_write, down_read), partial(enter, descriptor))
        os.close(down_read)
        crew.children.append(Child(place.name, pid, down_write))
    os.close(up_write)
    return crew


class Watch:
    """Follows a run: port counters at even times, reports of the participants, the end."""

    def __init__(self, run: RunSpec, plan: Plan, net: Any, start: float, journal: Journal, say: Say) -> None:
        self._run, self._plan, self._net = run, plan, net
        self._start, self._journal, self._say = start, journal, say
        self._wan = {port.name for port in plan.ports if port.wan}
        self.sent_bytes = 0

    def now(self) -> float:
        """Seconds since training began."""
        return time.monotonic() - self._start

    def to_the_end(self, crew: Crew) -> None:
        """Until every participant has ended. RunFailed as soon as one fails or overstays."""
        horizon = self._run.horizon.time
        missing = {child.name for child in crew.children}
        sample = 0
        while missing:
            due = horizon * sample / SAMPLES_PER_RUN if sample <= SAMPLES_PER_RUN else horizon + STAGE_LIMIT
            reports = crew.reports(due - self.now())
            for report in reports:
                raise_if_failed(report)
                if report["state"] == "ended":
                    missing.discard(report["node"])
            if not reports and self.now() >= due:
                if sample > SAMPLES_PER_RUN:
                    raise RunFailed(f"still running after the horizon: {', '.join(sorted(missing))}")
                self._sample(due)
                sample += 1
        self._journal.close()

    def _sample(self, due: float) -> None:
        counters = port_counters(self._net, self._plan)
        self.sent_bytes = sum(c.bytes for port, c in counters.items() if port in self._wan)
        for port, count in counters.items():
            self._journal.write(
                "links", time=due, port=port, bytes=count.bytes, packets=count.packets, drops=count.drops
            )
        self._say("progress", time=due, sent_bytes=self.sent_bytes)
