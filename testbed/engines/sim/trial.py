"""Trying an algorithm in milliseconds: a small run on the simulated network, and all that it left."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from testbed.api import Algorithm
from testbed.compute.snapshot import Snapshot
from testbed.engines.sim.simulate import simulate
from testbed.network.model import Channel
from testbed.network.presets import star
from testbed.spec.run import AlgorithmChoice, Compute, Horizon, RunSpec, Tcp, Workload
from testbed.workload.objective import Objective


@dataclass(frozen=True)
class Trial:
    """What a run left. Rows have the columns of `testbed.record.tables`."""

    snapshots: list[Snapshot]
    """Every model that was shown, not one per `evaluate_every`."""
    messages: list[dict[str, Any]]
    spans: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    links: list[dict[str, Any]]
    objective: Objective


def trial(
    kind: type[Algorithm[Any]],
    hyper: Any = None,
    *,
    workers: int = 4,
    horizon: float = 10.0,
    seed: int = 1,
    objective: Objective | None = None,
    **changes: Any,
) -> Trial:
    """Run an algorithm on a star of equal links of 20 Mbit/s and 10 ms.

    `hyper` is an instance of its `Hyper`, by default the defaults. `changes` replace fields of the run.
    """
    channel = Channel(20e6, 0.010)
    run = RunSpec(
        "trial", AlgorithmChoice(kind.__name__.lower(), kind.__name__), seed, star([(channel, channel)] * workers),
        Tcp(), Workload("digits", "mlp", batch=16, lr=0.1), Compute(0.02), Horizon(horizon, 1e-6, 0.8), engine="sim",
    )  # fmt: skip
    run = dataclasses.replace(run, **changes)
    objective = objective or Objective(run.workload, len(run.network.workers), run.seed)
    chosen = kind.Hyper() if hyper is None else hyper
    shown: list[Snapshot] = []
    rows = simulate(run, lambda: kind(chosen), objective, shown.append).rows
    tables = {name: rows.get(name, []) for name in ("messages", "spans", "notes", "links")}
    return Trial(shown, objective=objective, **tables)
