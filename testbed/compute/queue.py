"""What one compute process does for the guests it serves: answers jobs, evaluates when idle.

Everything is a function of the job alone, so it does not matter which process takes which job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from testbed.api import Vector
from testbed.compute.inline import Snapshot as Shown
from testbed.compute.slots import Job, Slot, Status
from testbed.workload.objective import NotFinite, Objective

SLICE = 1000
"""test samples evaluated between two looks at the doorbell."""


@dataclass(frozen=True)
class Snapshot:
    """A model to evaluate."""

    guest: str
    node: str
    time: float
    version: int
    samples: int
    model: Vector


@dataclass(frozen=True)
class Evaluation:
    """A row of the metrics table and the guest it belongs to."""

    guest: str
    node: str
    time: float
    version: int
    samples: int
    loss: float
    accuracy: float


def answer(objective: Objective, slot: Slot, guest: str, waiting: deque[Snapshot]) -> None:
    """Do the job in `slot` and leave status and result there; a failure is an answer too."""
    numbers = slot.integers
    try:
        _do(objective, slot, guest, waiting)
        numbers[Slot.STATUS] = Status.OK
    except Exception as error:  # whatever it was, it is this job's answer and nobody else's
        numbers[Slot.STATUS] = Status.FAILED
        slot.text = f"{Job(int(numbers[Slot.KIND])).name.lower()} failed: {error}"


def _do(objective: Objective, slot: Slot, guest: str, waiting: deque[Snapshot]) -> None:
    numbers = slot.integers
    kind, rank = Job(int(numbers[Slot.KIND])), int(numbers[Slot.RANK])
    first, steps, batch = int(numbers[Slot.FIRST]), int(numbers[Slot.STEPS]), int(numbers[Slot.BATCH])
    if kind is Job.INITIAL:
        slot.made[:] = objective.initial
        numbers[Slot.SAMPLES] = len(objective.parts[rank]) if rank >= 0 else 0
    elif kind is Job.GRADIENT:
        slot.made[:], slot.floats[Slot.LOSS] = objective.gradient(slot.given, rank, first, batch)
    elif kind is Job.TRAIN:
        if numbers[Slot.RESET]:
            slot.velocity[:] = 0
        made = objective.train(slot.given, rank, first, steps, batch, slot.velocity)
        slot.made[:], slot.floats[Slot.LOSS] = made
    else:
        if not np.isfinite(slot.given).all():
            raise NotFinite("the model holds numbers that are not finite")
        waiting.append(
            Snapshot(
                guest, slot.text, float(slot.floats[Slot.TIME]), int(numbers[Slot.VERSION]),
                int(numbers[Slot.SAMPLES]), slot.given.copy(),
            )
        )  # fmt: skip


def evaluate(objective: Objective, snapshot: Snapshot) -> Iterator[Evaluation | None]:
    """Evaluate on the whole test set slice by slice; yields None between slices, the row at the end."""
    total = len(objective.data.test_labels)
    loss, correct = 0.0, 0
    for first in range(0, total, SLICE):
        part, hits = objective.evaluate(snapshot.model, first, min(first + SLICE, total))
        loss, correct = loss + part, correct + hits
        yield None
    yield Evaluation(
        snapshot.guest, snapshot.node, snapshot.time, snapshot.version, snapshot.samples,
        loss / total, correct / total,
    )  # fmt: skip


def evaluate_whole(objective: Objective, shown: Shown) -> dict[str, Any]:
    """A row of the metrics table for a model that was shown in this process."""
    snapshot = Snapshot("", shown.node, shown.time, shown.version, shown.samples, shown.model)
    row = next(row for row in evaluate(objective, snapshot) if row is not None)
    return {key: value for key, value in asdict(row).items() if key != "guest"}
