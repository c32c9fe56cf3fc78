"""What a compute process does with the job in a slot.

Everything is a function of the job alone, so it does not matter which process takes which job.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from testbed.compute.slots import Job, Slot, Status
from testbed.compute.snapshot import Snapshot
from testbed.workload.objective import NotFinite, Objective

Keep = Callable[[Snapshot], None]


def answer(objective: Objective, slot: Slot, keep: Keep) -> None:
    """Do the job in `slot` and leave status and result there; a failure is an answer too. A snapshot goes to `keep`."""
    numbers = slot.integers
    try:
        _do(objective, slot, keep)
        numbers[Slot.STATUS] = Status.OK
    except Exception as error:  # whatever it was, it is this job's answer and nobody else's
        numbers[Slot.STATUS] = Status.FAILED
        slot.text = f"{Job(int(numbers[Slot.KIND])).name.lower()} failed: {error}"


def _do(objective: Objective, slot: Slot, keep: Keep) -> None:
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
        keep(
            Snapshot(
                slot.text, float(slot.floats[Slot.TIME]), int(numbers[Slot.VERSION]),
                int(numbers[Slot.SAMPLES]), slot.given.copy(),
            )
        )  # fmt: skip
