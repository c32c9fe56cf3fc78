"""An algorithm on the simulated network until its server has shown some versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.api import Algorithm, Vector
from testbed.compute.snapshot import Snapshot
from testbed.engines.sim.simulate import simulate
from testbed.network.model import Channel
from testbed.network.presets import star
from testbed.spec.run import AlgorithmChoice, Compute, Horizon, RunSpec, Tcp
from testbed.workload.objective import Objective


@dataclass
class Seen:
    """What one node showed and sent."""

    snapshots: list[tuple[int, Vector]] = field(default_factory=list)
    sent: list[tuple[str, str, int]] = field(default_factory=list)
    """target, tag and version."""


def run_locally(
    algorithm: Algorithm[Any], objective: Objective, versions: int, order: Sequence[int] | None = None
) -> dict[str, Seen]:
    """`order` says which worker is how many times slower, and with it whose messages come first."""
    workers = len(objective.parts)
    channel = Channel(20e6, 0.010)
    slowdown = tuple(float(1 + place) for place in (order or [0] * workers))
    run = RunSpec(
        "local", AlgorithmChoice("x", "x"), 5, star([(channel, channel)] * workers), Tcp(), objective.workload,
        Compute(0.001, slowdown), Horizon(0.5 * versions, 1e-6, 0.8), engine="sim",
    )  # fmt: skip
    shown: list[Snapshot] = []
    left = simulate(run, lambda: algorithm, objective, shown.append)
    seen = {name: Seen() for name in ("server", *run.network.workers)}
    for shot in shown:
        if shot.version:
            seen[shot.node].snapshots.append((shot.version, shot.model))
    for row in left.rows["messages"]:
        seen[row["source"]].sent.append((row["target"], row["tag"], row["version"]))
    assert len(seen["server"].snapshots) >= versions
    return seen
