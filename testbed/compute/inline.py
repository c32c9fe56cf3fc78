"""Computing in the same process, for the simulated network: the same objective, the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from testbed.api import ComputeFailed, Vector
from testbed.compute.slots import Job
from testbed.compute.snapshot import Snapshot
from testbed.workload.objective import NotFinite, Objective


class Counter:
    """Samples processed by all workers of a run."""

    def __init__(self) -> None:
        self.samples = 0


class InlineComputer:
    """`testbed.compute.computer.Computer` on an objective that all nodes share."""

    def __init__(self, objective: Objective, rank: int, counter: Counter, keep: Callable[[Snapshot], None]) -> None:
        self.initial = objective.initial
        self.samples = len(objective.parts[rank]) if rank >= 0 else 0
        self._objective, self._rank, self._counter, self._keep = objective, rank, counter, keep
        self._velocity: Vector | None = None
        self._made: tuple[Vector, float] | NotFinite | None = None

    def begin(self, kind: Job, model: Vector, first: int, batch: int, steps: int, reset: bool) -> None:
        try:
            if kind is Job.GRADIENT:
                made, loss = self._objective.gradient(model, self._rank, first, batch)
            else:
                if self._objective.workload.momentum and (reset or self._velocity is None):
                    self._velocity = np.zeros_like(model)
                made, loss = self._objective.train(model, self._rank, first, steps, batch, self._velocity)
            self._made = made.copy(), loss
        except NotFinite as error:
            self._made = error

    def collect(self) -> tuple[Vector, float]:
        made, self._made = self._made, None
        assert made is not None
        if isinstance(made, NotFinite):
            raise ComputeFailed(f"computing failed: {made}")
        return made

    def count(self, samples: int) -> None:
        self._counter.samples += samples

    def show(self, node: str, time: float, version: int, model: Vector) -> None:
        if not np.isfinite(model).all():
            raise ComputeFailed("the model holds numbers that are not finite")
        self._keep(Snapshot(node, time, version, self._counter.samples, model.copy()))
