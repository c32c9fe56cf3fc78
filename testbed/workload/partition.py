"""Which samples each worker holds, and in which order it takes them. Pure functions of the seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = npt.NDArray[np.int64]

_SPLIT, _ORDER, _JITTER, _NODE = range(4)  # what a random stream is for


def stream(seed: int, purpose: int, *place: int) -> np.random.Generator:
    """An independent stream for a purpose and a place: no arithmetic on seeds, so none collide."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *place)))


def jitter_stream(seed: int, rank: int) -> np.random.Generator:
    """The stream of a worker's step times."""
    return stream(seed, _JITTER, rank)


def node_stream(seed: int, number: int) -> np.random.Generator:
    """The stream that an algorithm draws from on one node."""
    return stream(seed, _NODE, number)


def iid(labels: npt.NDArray[np.uint8], workers: int, seed: int) -> list[Indices]:
    """A random split into parts whose sizes differ by one at most."""
    return [np.sort(part) for part in np.array_split(stream(seed, _SPLIT).permutation(len(labels)), workers)]


PARTITIONS: dict[str, Callable[[npt.NDArray[np.uint8], int, int], list[Indices]]] = {"iid": iid}


class Batches:
    """A worker's endless stream of mini-batches: its samples in a new order each epoch.

    Batch `k` is a function of seed, rank and `k` alone, so any process may compute it.
    A batch that straddles two epochs takes the rest from the next one.
    """

    def __init__(self, part: Indices, batch: int, seed: int, rank: int) -> None:
        self._part, self._batch, self._seed, self._rank = part, batch, seed, rank
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> Indices:
        return stream(self._seed, _ORDER, self._rank, epoch).permutation(self._part)

    def __getitem__(self, number: int) -> Indices:
        """Sample numbers of batch `number`, from 0."""
        return self.take(number * self._batch, self._batch)

    def take(self, first: int, need: int) -> Indices:
        """`need` sample numbers of the stream, after the first `first` ones."""
        size = len(self._part)
        taken: list[Indices] = []
        while need:
            epoch, offset = divmod(first, size)
            piece = self._epoch(epoch)[offset : offset + need]
            taken.append(piece)
            need -= len(piece)
            first += len(piece)
        return np.concatenate(taken)
