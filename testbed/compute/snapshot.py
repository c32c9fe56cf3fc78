"""A model that an algorithm showed, and what it is worth on the test set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.api import Vector
from testbed.workload.objective import Objective

SLICE = 1000
"""test samples evaluated between two looks at whatever is more urgent."""


@dataclass(frozen=True)
class Snapshot:
    """A model to evaluate."""

    node: str
    time: float
    """seconds since training began."""
    version: int
    samples: int
    """processed by all workers until then."""
    model: Vector


@dataclass(frozen=True)
class Evaluation:
    """A row of the metrics table."""

    node: str
    time: float
    version: int
    samples: int
    loss: float
    accuracy: float


def evaluate(objective: Objective, snapshot: Snapshot) -> Iterator[Evaluation | None]:
    """Evaluate on the whole test set slice by slice; yields None between slices, the row at the end."""
    total = len(objective.data.test_labels)
    loss, correct = 0.0, 0
    for first in range(0, total, SLICE):
        part, hits = objective.evaluate(snapshot.model, first, min(first + SLICE, total))
        loss, correct = loss + part, correct + hits
        yield None
    yield Evaluation(snapshot.node, snapshot.time, snapshot.version, snapshot.samples, loss / total, correct / total)


def evaluate_at_once(objective: Objective, snapshot: Snapshot) -> Evaluation:
    """The same where nothing is more urgent."""
    *_, row = evaluate(objective, snapshot)
    assert row is not None
    return row
