"""Memory shared between a guest and the compute service, cut into numbered slots.

A slot carries one job at a time: a page of numbers and text, the vector that is given, the vector
that is made, and the optimiser's velocity. Both sides map the same file, so nothing is copied on the way.
Offsets are bytes.
"""

from __future__ import annotations

import mmap
from enum import IntEnum

import numpy as np

from testbed.api import Vector

PAGE = 4096
_NUMBERS = 64  # int64 and float64 each, 512 bytes apiece
_TEXT = 1024  # where the text begins in a slot's page


class Job(IntEnum):
    """What a slot asks for."""

    INITIAL = 1
    """The initial model."""
    GRADIENT = 2
    """The mean gradient of one mini-batch at the given model."""
    TRAIN = 3
    """The given model after some local steps."""
    SNAPSHOT = 4
    """Keep the given model and evaluate it when there is time."""


class Status(IntEnum):
    """How a job ended."""

    OK = 0
    FAILED = 1


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def stride(dimension: int) -> int:
    """Bytes of one slot for models of that many parameters."""
    return PAGE + 3 * _pages(4 * dimension)


class Slot:
    """One slot, as views on the shared memory."""

    KIND, RANK, FIRST, STEPS, STATUS, VERSION, SAMPLES, BATCH, RESET = range(9)
    LOSS, TIME = range(2)

    def __init__(self, memory: mmap.mmap, index: int, dimension: int) -> None:
        base = index * stride(dimension)
        self.index = index
        self.integers = np.frombuffer(memory, np.int64, _NUMBERS, base)
        self.floats = np.frombuffer(memory, np.float64, _NUMBERS, base + 8 * _NUMBERS)
        self.given: Vector = np.frombuffer(memory, np.float32, dimension, base + PAGE)
        self.made: Vector = np.frombuffer(memory, np.float32, dimension, base + PAGE + _pages(4 * dimension))
        self.velocity: Vector = np.frombuffer(memory, np.float32, dimension, base + PAGE + 2 * _pages(4 * dimension))
        """The optimiser's, from one job of local steps to the next."""
        self._text = np.frombuffer(memory, np.uint8, PAGE - _TEXT, base + _TEXT)

    @property
    def text(self) -> str:
        """A node's name for a snapshot, the reason for a failed job."""
        return bytes(self._text).split(b"\0", 1)[0].decode(errors="replace")

    @text.setter
    def text(self, value: str) -> None:
        raw = value.encode()[: len(self._text) - 1] + b"\0"
        self._text[: len(raw)] = np.frombuffer(raw, np.uint8)


def map_slots(descriptor: int, count: int, dimension: int) -> list[Slot]:
    """Map `count` slots of an open file or of the guest's /dev/mmapper."""
    memory = mmap.mmap(descriptor, count * stride(dimension))
    return [Slot(memory, index, dimension) for index in range(count)]
