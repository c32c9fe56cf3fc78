"""The guest's side of the compute service: fill a slot, ring, wait with the clock stopped."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from testbed.api import ComputeFailed, Vector
from testbed.compute.slots import Job, Slot, Status, map_slots

DOORBELL = "/dev/doorbell"
SHARED = "/dev/mmapper"


def open_slots(count: int, dimension: int) -> list[Slot]:
    """The guest's view of the shared slots."""
    descriptor = os.open(SHARED, os.O_RDWR)
    try:
        return map_slots(descriptor, count, dimension)
    finally:
        os.close(descriptor)


def host_clock() -> tuple[int, int]:
    """Nanoseconds that this guest was held waiting so far, and the host's clock. For profiles only."""
    descriptor = os.open(DOORBELL, os.O_RDWR)
    try:
        held, now = struct.unpack("QQ", os.read(descriptor, 16))
        return held, now
    finally:
        os.close(descriptor)


class Doorbell:
    """One slot's way to the service; a slot has one job under way at a time."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self._number = struct.pack("I", slot.index)
        self._descriptor = os.open(DOORBELL, os.O_RDWR)

    def ring(
        self, kind: Job, *, rank: int = 0, first: int = 0, steps: int = 0, batch: int = 0, reset: bool = True
    ) -> None:
        """Start a job whose vector lies in the slot already."""
        numbers = self.slot.integers
        numbers[Slot.KIND], numbers[Slot.RANK] = kind, rank
        numbers[Slot.FIRST], numbers[Slot.STEPS] = first, steps
        numbers[Slot.BATCH], numbers[Slot.RESET] = batch, reset
        os.write(self._descriptor, self._number)

    def wait(self) -> Vector:
        """Hold the guest until the job is done; the vector made, valid until the next ring.

        ComputeFailed with the service's reason; OSError when the service is gone.
        """
        os.read(self._descriptor, 4)
        if self.slot.integers[Slot.STATUS] != Status.OK:
            raise ComputeFailed(self.slot.text)
        return self.slot.made


class SlotComputer:
    """`testbed.compute.computer.Computer` over the doorbell, for node number `number` of a guest."""

    def __init__(self, slots: Sequence[Slot], number: int, rank: int) -> None:
        self._slots, self._rank = slots, rank
        self._jobs, self._shots = Doorbell(slots[2 * number]), Doorbell(slots[2 * number + 1])
        self._jobs.ring(Job.INITIAL, rank=rank)
        self.initial = self._jobs.wait().copy()
        self.samples = int(self._jobs.slot.integers[Slot.SAMPLES])
        self._jobs.slot.integers[Slot.SAMPLES] = 0  # from here on: samples processed by this node

    def begin(self, kind: Job, model: Vector, first: int, batch: int, steps: int, reset: bool) -> None:
        self._jobs.slot.given[:] = model
        self._jobs.ring(kind, rank=self._rank, first=first, steps=steps, batch=batch, reset=reset)

    def collect(self) -> tuple[Vector, float]:
        vector = self._jobs.wait().copy()
        return vector, float(self._jobs.slot.floats[Slot.LOSS])

    def count(self, samples: int) -> None:
        self._jobs.slot.integers[Slot.SAMPLES] += samples

    def show(self, node: str, time: float, version: int, model: Vector) -> None:
        slot = self._shots.slot
        slot.given[:] = model
        slot.text = node
        slot.floats[Slot.TIME] = time
        slot.integers[Slot.VERSION] = version
        # What every worker has processed by now; each keeps its own count in its own slot.
        slot.integers[Slot.SAMPLES] = sum(int(s.integers[Slot.SAMPLES]) for s in self._slots[::2])
        self._shots.ring(Job.SNAPSHOT)
        self._shots.wait()
