"""What travels between an algorithm and its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Message:
    """What one node sent to another."""

    sender: str
    tag: str
    version: int
    """Whatever the algorithm numbers: a round, a model version, a step."""
    vector: Vector
    """Empty where the sender sent none."""
    meta: dict[str, Any]
    """A few words beside the vector, as JSON knows them."""


@dataclass(frozen=True)
class Gradient:
    """The mean gradient of one mini-batch, and the mean loss before the step."""

    vector: Vector
    loss: float


@dataclass(frozen=True)
class Tensor:
    """Where one tensor of the model lies in the flat vector: `vector[start:stop].reshape(shape)`."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
