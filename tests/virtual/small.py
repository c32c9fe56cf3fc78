"""A small experiment for the virtual ring: three workers, digits, a few virtual seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.engines.virtual.engine import Limits, VirtualEngine
from testbed.network.model import Channel, Link, Network, Site
from testbed.record.folder import RunFolder
from testbed.record.progress import Progress
from testbed.spec.run import AlgorithmChoice, Compute, Horizon, Jitter, RunSpec, Tcp, Workload


def star(*channels: Channel) -> Network:
    """One worker a channel around a server."""
    names = [f"w{rank + 1}" for rank in range(len(channels))]
    sites = (Site("hub", ("server",)), *(Site(f"site{name}", (name,)) for name in names))
    links = tuple(Link("hub", f"site{name}", channel, channel) for name, channel in zip(names, channels, strict=True))
    return Network("star", sites, links, tuple(names), "server")


CLEAN = star(Channel(20e6, 0.010), Channel(10e6, 0.020), Channel(5e6, 0.040))
ROUGH = star(
    Channel(20e6, 0.010, loss=0.02, jitter=0.002),
    Channel(10e6, 0.020, loss=0.01, jitter=0.001),
    Channel(5e6, 0.040),
)


def small(algorithm: str = "ssgd", seed: int = 1, hyper: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    """The run; `changes` replace fields of the spec."""
    run = RunSpec(
        "small", AlgorithmChoice(algorithm, algorithm, hyper or {}), seed, CLEAN, Tcp(),
        Workload("digits", "mlp", batch=16, lr=0.1), Compute(0.02, (1.0, 1.0, 2.0), Jitter("lognormal", 0.1)),
        Horizon(time=6, evaluate_every=1, target=0.8),
    )  # fmt: skip
    return dataclasses.replace(run, **changes)


def carry_out(
    kernel: Path, results: Path, runs: Sequence[RunSpec], **settings: Any
) -> tuple[list[RunFolder], list[Progress]]:
    """Run on the virtual engine; the folders, and all that was shown."""
    shown: list[Progress] = []
    folders = [RunFolder.of(results, run) for run in runs]
    settings.setdefault("limits", Limits(whole=240, silence=120))
    VirtualEngine(kernel, shown.append, **settings).run(list(zip(runs, folders, strict=True)))
    return folders, shown
