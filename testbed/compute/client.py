"""The guest's side of the compute service: fill a slot, ring, wait with the clock stopped."""

from __future__ import annotations

import os
import struct

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

    def ring(self, kind: Job, *, rank: int = 0, step: int = 0, steps: int = 0) -> None:
        """Start a job whose vector lies in the slot already."""
        numbers = self.slot.integers
        numbers[Slot.KIND], numbers[Slot.RANK] = kind, rank
        numbers[Slot.STEP], numbers[Slot.STEPS] = step, steps
        os.write(self._descriptor, self._number)

    def wait(self) -> Vector:
        """Hold the guest until the job is done; the vector made, valid until the next ring.

        ComputeFailed with the service's reason; OSError when the service is gone.
        """
        os.read(self._descriptor, 4)
        if self.slot.integers[Slot.STATUS] != Status.OK:
            raise ComputeFailed(self.slot.text)
        return self.slot.made
