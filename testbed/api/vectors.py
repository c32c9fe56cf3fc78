"""Arithmetic on flat vectors that more than one algorithm needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from testbed.api.values import Vector


def weighted_mean(vectors: Sequence[Vector], weights: Sequence[float] | None = None) -> Vector:
    """The mean, weighted if asked for, summed in the order given so that it repeats bit for bit.

    Weights need not sum to one. ValueError when there is nothing to average or the weights sum to 0.
    """
    shares = [1.0] * len(vectors) if weights is None else list(weights)
    total = sum(shares)
    if len(shares) != len(vectors) or total <= 0:
        raise ValueError(f"cannot average {len(vectors)} vectors with weights {shares}")
    mean = np.multiply(vectors[0], np.float32(shares[0] / total))
    for vector, share in zip(vectors[1:], shares[1:], strict=True):
        mean += vector * np.float32(share / total)
    return mean


class MomentumSGD:
    """The workload's optimiser for an algorithm that applies gradients itself.

    v = momentum * v + g;  w = w - lr * v   (as in Sutskever et al. 2013 with v = -velocity / lr)
    """

    def __init__(self, momentum: float = 0.0) -> None:
        self._momentum = np.float32(momentum)
        self._velocity: Vector | None = None

    def step(self, model: Vector, gradient: Vector, lr: float) -> None:
        """Move `model` in place."""
        if self._momentum:
            if self._velocity is None:
                self._velocity = np.zeros_like(model)
            self._velocity *= self._momentum
            self._velocity += gradient
            gradient = self._velocity
        model -= np.float32(lr) * gradient


def parts(length: int, count: int) -> list[slice]:
    """`length` entries cut into `count` neighbouring parts whose lengths differ by one at most.

    The longer ones come first; with more parts than entries the last ones are empty.
    """
    short, longer = divmod(length, count)
    bounds = [short * i + min(i, longer) for i in range(count + 1)]
    return [slice(first, last) for first, last in pairwise(bounds)]


def sparse_vector(indices: npt.NDArray[np.integer], values: Vector) -> Vector:
    """Chosen entries of a vector, packed for a message: 4 bytes for each index and 4 for each value."""
    if len(indices) != len(values):
        raise ValueError(f"{len(indices)} indices for {len(values)} values")
    return np.concatenate([indices.astype("<i4").view("<f4"), values.astype("<f4")])


def split_sparse(packed: Vector) -> tuple[npt.NDArray[np.int32], Vector]:
    """The indices and values that `sparse_vector` packed."""
    half = len(packed) // 2
    return packed[:half].view("<i4"), packed[half:]
