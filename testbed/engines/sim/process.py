"""The whole of a simulated run in a process of its own: simulate, evaluate, write down."""

from __future__ import annotations

import signal
import traceback
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from testbed.record.folder import RunFolder
from testbed.record.tables import TABLES, write_rows
from testbed.spec.run import RunSpec


def carry_out(run: RunSpec, folder: RunFolder, pipe: Connection) -> None:
    """Say on `pipe` how far the run is; leave DONE or FAILED in its folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the command, which ends this process
    try:
        _carry_out(run, folder, pipe)
        folder.finish()
    except BaseException as error:  # the last word of this process: it must be said
        reason = f"{type(error).__name__}: {error}"
        folder.fail(f"{reason}\n{traceback.format_exc()[-3000:]}")
    finally:
        pipe.close()


def _carry_out(run: RunSpec, folder: RunFolder, pipe: Connection) -> None:
    # Torch is loaded here and in the process that these are forked from, never in the command.
    from testbed.compute.snapshot import Snapshot, evaluate_at_once
    from testbed.engines.sim.simulate import Simulated, simulate
    from testbed.runtime.finder import make_algorithm
    from testbed.workload.objective import Objective

    objective = Objective(run.workload, len(run.network.workers), run.seed)
    metrics: list[dict[str, Any]] = []

    def keep(snapshot: Snapshot) -> None:
        metrics.append(asdict(evaluate_at_once(objective, snapshot)))

    def beat(now: float, so_far: Simulated) -> None:
        accuracy = metrics[-1]["accuracy"] if metrics else None
        pipe.send({"time": now, "sent_bytes": so_far.sent_bytes, "accuracy": accuracy})

    left = simulate(run, lambda: make_algorithm(run.algorithm), objective, keep, beat)
    rows = {**left.rows, "metrics": metrics}
    for table in TABLES:
        write_rows(folder.table(table), table, rows.get(table, []))
    folder.drop_lines()
