"""Runs experiments on the simulated network: one process per run, as many at once as there are cores.

The processes are forked from one that has imported torch. Whatever goes wrong with a run becomes its FAILED
file; no process outlives the command.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any

from testbed.compute.arithmetic import hold_arithmetic
from testbed.engines.sim.process import carry_out
from testbed.engines.sim.undisturbed import undisturbed
from testbed.record.environment import environment
from testbed.record.folder import RunFolder
from testbed.record.progress import Progress, State
from testbed.spec.run import RunSpec

TICK = 0.2
"""seconds between two looks at the clock."""

Work = tuple[RunSpec, RunFolder]


@dataclass
class _Running:
    """A run in its process."""

    run: RunSpec
    folder: RunFolder
    process: ForkServerProcess
    began: float
    """seconds of the monotonic clock."""
    last: Progress
    """what was said last."""

    def stop(self, reason: str) -> None:
        """End the process if it still goes. `reason` is the run's last word if it has said none."""
        self.process.kill()
        self.process.join()
        if not self.folder.done and self.folder.failure is None:
            self.folder.fail(reason)


class SimEngine:
    """Carries out runs; `show` is told how each one goes."""

    def __init__(self, show: Callable[[Progress], None], *, at_once: int | None = None, limit: float = 3600.0) -> None:
        self._show, self._limit = show, limit
        self._at_once = at_once or len(os.sched_getaffinity(0))
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["testbed.engines.sim.process", "testbed.engines.sim.simulate"])

    def run(self, work: Sequence[Work]) -> int:
        """Carry out every run and count those that failed.

        Each that has begun ends as DONE or FAILED in its folder, also when this is interrupted.
        """
        hold_arithmetic()
        resource_tracker.ensure_running()  # beforehand: it would let ^C through to the process that it comes with
        waiting = deque(work)
        running: dict[Connection, _Running] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._at_once:
                    self._begin(running, *waiting.popleft())
                self._look(running)
        except BaseException as error:
            with undisturbed():
                for one in running.values():
                    one.stop(f"interrupted: {type(error).__name__} {error}")
            for one in running.values():  # afterwards, as it may be the showing that fails
                self._tell_the_end(one)
            raise
        return sum(folder.failure is not None for _, folder in work)

    def _begin(self, running: dict[Connection, _Running], run: RunSpec, folder: RunFolder) -> None:
        first = Progress(run.algorithm.label, run.seed, "starting")
        with undisturbed():  # no process may be without an entry, nor a folder without a last word
            folder.begin(run, environment(None, run.algorithm))
            ours, theirs = self._context.Pipe(duplex=False)
            process = self._context.Process(target=carry_out, args=(run, folder, theirs), daemon=True)
            process.start()
            theirs.close()
            running[ours] = _Running(run, folder, process, time.monotonic(), first)
        self._show(first)

    def _look(self, running: dict[Connection, _Running]) -> None:
        """One round: what the processes say, who has ended, and who is over time."""
        for pipe in wait(list(running), TICK):
            assert isinstance(pipe, Connection)
            one = running[pipe]
            try:
                said = pipe.recv()
            except EOFError:
                one.process.join()
                self._end(running, pipe, f"the process of this run ended with exit code {one.process.exitcode}")
            else:
                self._tell(one, said)
        for pipe, one in list(running.items()):
            if time.monotonic() - one.began > self._limit:
                self._end(running, pipe, f"stopped after {self._limit:g} s, the wall-clock limit of a run")

    def _end(self, running: dict[Connection, _Running], pipe: Connection, reason: str) -> None:
        one = running[pipe]
        one.stop(reason)
        del running[pipe]
        pipe.close()
        self._tell_the_end(one)

    def _tell(self, one: _Running, said: dict[str, Any]) -> None:
        label, seed = one.run.algorithm.label, one.run.seed
        one.last = Progress(label, seed, "training", machine_seconds=time.monotonic() - one.began, **said)
        self._show(one.last)

    def _tell_the_end(self, one: _Running) -> None:
        reason = one.folder.failure
        state: State = "done" if reason is None else "failed"
        detail = (reason or "").partition("\n")[0]
        seconds = time.monotonic() - one.began
        self._show(replace(one.last, state=state, detail=detail, machine_seconds=seconds))
