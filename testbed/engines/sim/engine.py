"""Runs experiments on the simulated network: one process per run, as many at once as there are cores."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from testbed.compute.arithmetic import hold_arithmetic
from testbed.record.environment import environment
from testbed.record.folder import RunFolder
from testbed.record.progress import Progress
from testbed.spec.run import RunSpec

TICK = 0.5
"""seconds between two looks at the limit."""


class SimEngine:
    """Carries out runs; `show` is told how each one goes."""

    def __init__(self, show: Callable[[Progress], None], *, at_once: int | None = None, limit: float = 3600.0) -> None:
        self._show, self._limit = show, limit
        self._at_once = at_once or len(os.sched_getaffinity(0))

    def run(self, work: Sequence[tuple[RunSpec, RunFolder]]) -> int:
        """Carry out every run and count those that failed. Each ends as DONE or FAILED in its folder."""
        hold_arithmetic()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["testbed.engines.sim.simulate"])
        waiting = deque(work)
        running: dict[Connection, tuple[Any, RunSpec, RunFolder, float]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._at_once:
                    run, folder = waiting.popleft()
                    folder.begin(run, environment(None, run.algorithm))
                    ours, theirs = context.Pipe(duplex=False)
                    process = context.Process(target=carry_out, args=(run, folder, theirs), daemon=True)
                    process.start()
                    theirs.close()
                    running[ours] = process, run, folder, time.monotonic()
                self._look(running)
        finally:
            for process, _, folder, _ in running.values():
                process.kill()
                process.join()
                folder.fail("interrupted")
        return sum(folder.failure is not None for _, folder in work)

    def _look(self, running: dict[Connection, tuple[Any, RunSpec, RunFolder, float]]) -> None:
        for ready in wait(list(running), TICK):
            assert isinstance(ready, Connection)
            process, run, folder, began = running[ready]
            try:
                said = ready.recv()
            except EOFError:
                process.join()
                if not folder.done and folder.failure is None:
                    folder.fail(f"the process of this run ended with exit code {process.exitcode}")
                self._tell(run, folder, began, {})
                del running[ready]
                continue
            self._tell(run, folder, began, said)
        for pipe, (process, _run, folder, began) in running.items():
            if time.monotonic() - began > self._limit and process.is_alive() and folder.failure is None:
                folder.fail(f"stopped after {self._limit:g} s, the wall-clock limit of a run")
                process.kill()
                assert pipe is not None

    def _tell(self, run: RunSpec, folder: RunFolder, began: float, said: dict[str, Any]) -> None:
        seconds = time.monotonic() - began
        label, seed = run.algorithm.label, run.seed
        if said:
            self._show(Progress(label, seed, "training", machine_seconds=seconds, **said))
        elif folder.failure is not None:
            self._show(Progress(label, seed, "failed", machine_seconds=seconds, detail=folder.failure.splitlines()[0]))
        else:
            self._show(Progress(label, seed, "done", run.horizon.time, machine_seconds=seconds))


def carry_out(run: RunSpec, folder: RunFolder, pipe: Connection) -> None:
    """The whole of a run in a process of its own."""
    from testbed.compute.queue import evaluate_whole
    from testbed.engines.sim.simulate import Simulated, simulate
    from testbed.record.tables import TABLES, write_rows
    from testbed.runtime.finder import make_algorithm
    from testbed.workload.objective import Objective

    def beat(now: float, so_far: Simulated) -> None:
        pipe.send({"time": now, "sent_bytes": int(so_far.sent_bytes)})

    try:
        objective = Objective(run.workload, len(run.network.workers), run.seed)
        left = simulate(run, lambda: make_algorithm(run.algorithm), objective, beat)
        left.rows["metrics"] = [evaluate_whole(objective, snapshot) for snapshot in left.snapshots]
        for table in TABLES:
            write_rows(folder.table(table), table, left.rows.get(table, []))
        folder.drop_lines()
        folder.finish()
    except BaseException as error:  # the last word of this process: it must be said
        folder.fail(f"{type(error).__name__}: {error}\n{traceback.format_exc()[-3000:]}")
    pipe.close()
