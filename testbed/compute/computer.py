"""What a node computes with, wherever the mathematics is done."""

from __future__ import annotations

from typing import Protocol

from testbed.api import Vector
from testbed.compute.slots import Job


class Computer(Protocol):
    """One node's way to the objective: one job at a time, begun and collected."""

    initial: Vector
    samples: int
    """training samples that this node holds."""

    def begin(self, kind: Job, model: Vector, first: int, batch: int, steps: int, reset: bool) -> None:
        """Start a gradient or local steps; `first` is the number of samples taken before."""
        ...

    def collect(self) -> tuple[Vector, float]:
        """The vector made, the caller's own, and the loss. ComputeFailed when the job was refused."""
        ...

    def count(self, samples: int) -> None:
        """Add to the samples that this node has processed."""
        ...

    def show(self, node: str, time: float, version: int, model: Vector) -> None:
        """Keep a snapshot to be evaluated."""
        ...
