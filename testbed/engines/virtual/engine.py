"""Runs experiments on the virtual engine: one guest per run, as many at once as cores and memory allow.

One loop looks after everything: consoles, ends of guests, results of the compute service, limits.
Whatever goes wrong with a run becomes its FAILED file; nothing of it stays behind.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.compute.service import ComputeService, ServiceDied
from testbed.engines.virtual.folders import refuse_spaces, remove_abandoned
from testbed.engines.virtual.guest import compile_project
from testbed.engines.virtual.supervised import SupervisedRun
from testbed.record.folder import RunFolder
from testbed.record.progress import Progress
from testbed.spec.run import RunSpec

GUEST_BYTES = 1_500_000_000
"""memory set aside for one guest and its share of the compute service."""
TICK = 0.1
"""seconds between two looks at the consoles."""


@dataclass(frozen=True)
class Limits:
    """How long a guest may take, in seconds of the machine."""

    whole: float = 3600.0
    silence: float = 120.0
    """without a word on the console."""


def how_many_at_once(runs: int) -> int:
    """Guests side by side: one per core, as far as memory goes, and not more than there are runs."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    memory = 1024 * int(fields["MemAvailable"].split()[0])
    return max(1, min(len(os.sched_getaffinity(0)), int(memory // GUEST_BYTES), runs))


class VirtualEngine:
    """Carries out runs; `show` is told how each one goes."""

    def __init__(
        self,
        kernel: Path,
        show: Callable[[Progress], None],
        *,
        at_once: int | None = None,
        limits: Limits = Limits(),
        keep_going: bool = False,
    ) -> None:
        self._kernel, self._show = kernel, show
        self._at_once, self._limits, self._keep_going = at_once, limits, keep_going

    def run(self, work: Sequence[tuple[RunSpec, RunFolder]]) -> int:
        """Carry out every run and count those that failed.

        Each ends as DONE or FAILED in its folder, also when this is interrupted.
        """
        refuse_spaces(self._kernel)
        remove_abandoned()
        compile_project()
        waiting = deque(work)
        at_once = self._at_once or how_many_at_once(len(work))
        processes = len(os.sched_getaffinity(0))
        running: dict[str, SupervisedRun] = {}
        with ComputeService(processes) as service, selectors.DefaultSelector() as selector:
            for sock in service.sockets:
                selector.register(sock, selectors.EVENT_READ, sock)
            try:
                while waiting or running:
                    while waiting and len(running) < at_once:
                        self._begin(service, selector, running, *waiting.popleft())
                    self._look(service, selector, running)
            except ServiceDied as death:
                self._fail_all(running, [*waiting], f"the compute service died: {death}")
            except BaseException as error:
                self._fail_all(running, [], f"interrupted: {type(error).__name__} {error}")
                raise
        return sum(folder.failure is not None for _, folder in work)

    def _begin(
        self,
        service: ComputeService,
        selector: selectors.BaseSelector,
        running: dict[str, SupervisedRun],
        run: RunSpec,
        folder: RunFolder,
    ) -> None:
        name = f"{run.algorithm.label}-{run.seed}"
        taken = [other.core for other in running.values()]
        core = min(sorted(os.sched_getaffinity(0)), key=taken.count)
        supervised = SupervisedRun(name, run, folder, self._show, processes=len(service.sockets), core=core)
        running[name] = supervised
        with supervised.failing_alone():
            supervised.boot(self._kernel, service, keep_going=self._keep_going)
            selector.register(supervised.pidfd, selectors.EVENT_READ, supervised)

    def _look(
        self, service: ComputeService, selector: selectors.BaseSelector, running: dict[str, SupervisedRun]
    ) -> None:
        """One round of the loop."""
        for key, _ in selector.select(TICK):
            if isinstance(key.data, SupervisedRun):
                selector.unregister(key.fd)
                key.data.guest_ended()
            else:
                self._hear(service.hear(key.data), running)
        now = time.monotonic()
        for name, supervised in list(running.items()):
            with supervised.failing_alone():
                supervised.follow(now, self._limits.whole, self._limits.silence)
            if supervised.finished:
                del running[name]
                if supervised.pidfd in selector.get_map():
                    selector.unregister(supervised.pidfd)
                supervised.close()

    @staticmethod
    def _hear(said: dict[str, Any], running: dict[str, SupervisedRun]) -> None:
        supervised = running.get(said.pop("guest", ""))
        if supervised is not None:
            with supervised.failing_alone():
                supervised.hear(said)

    def _fail_all(
        self, running: dict[str, SupervisedRun], waiting: list[tuple[RunSpec, RunFolder]], reason: str
    ) -> None:
        for supervised in running.values():
            try:
                supervised.fail(reason)
            finally:
                supervised.close()
        for run, folder in waiting:
            folder.fail(f"not started: {reason}")
            self._show(Progress(run.algorithm.label, run.seed, "failed", detail=reason))
