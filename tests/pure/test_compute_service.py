"""The compute service with real processes and real torch; the test plays the guest's kernel."""

from __future__ import annotations

import os
import selectors
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.compute.service import ComputeService, Introduction, ServiceDied
from testbed.compute.slots import Job, Slot, Status, map_slots, stride
from testbed.network.model import Network
from testbed.spec.run import AlgorithmChoice, Compute, Horizon, RunSpec, Tcp, Workload
from testbed.workload.models import dimension
from testbed.workload.objective import Objective

WORKLOAD = Workload("digits", "softmax", batch=8, lr=0.1)
RUN = RunSpec(
    "test", AlgorithmChoice("ssgd", "ssgd"), 3, Network("none", (), (), ("w1", "w2")), Tcp(), WORKLOAD,
    Compute(0.01), Horizon(1, 1, 0.5),
)  # fmt: skip
SIZE = dimension("softmax", "digits")


class Kernel:
    """What the doorbell device does, in Python."""

    def __init__(self, intro: Introduction, count: int) -> None:
        descriptor = os.open(intro.memory, os.O_RDWR)
        self.slots = map_slots(descriptor, count, SIZE)
        os.close(descriptor)
        self._intro = intro

    def do(self, index: int, kind: Job, **numbers: int) -> Slot:
        """Ring and wait for the answer, 20 s at most."""
        slot = self.slots[index]
        slot.integers[Slot.KIND] = kind
        for place, value in numbers.items():
            slot.integers[getattr(Slot, place)] = value
        os.write(self._intro.ring, struct.pack("I", index))
        with selectors.DefaultSelector() as selector:
            selector.register(self._intro.answer, selectors.EVENT_READ)
            assert selector.select(20), "no answer from the compute service"
        assert os.read(self._intro.answer, 4) == struct.pack("I", index)
        return slot

    def leave(self) -> None:
        os.close(self._intro.ring)
        os.close(self._intro.answer)


@pytest.fixture(scope="module")
def service() -> Iterator[ComputeService]:
    with ComputeService(2) as running:
        yield running


@pytest.fixture
def kernel(service: ComputeService, tmp_path: Path) -> Kernel:
    return Kernel(service.introduce("g", RUN, tmp_path / "slots", 4, SIZE), 4)


def heard(service: ComputeService, seconds: float = 20) -> list[dict[str, Any]]:
    """Everything that is said until both processes have finished with the guest."""
    said: list[dict[str, Any]] = []
    with selectors.DefaultSelector() as selector:
        for sock in service.sockets:
            selector.register(sock, selectors.EVENT_READ, sock)
        limit = time.monotonic() + seconds
        while sum("finished" in one for one in said) < 2 and time.monotonic() < limit:
            said += [service.hear(key.data) for key, _ in selector.select(1)]
    return said


def test_jobs_give_what_the_objective_gives(kernel: Kernel) -> None:
    objective = Objective(WORKLOAD, workers=2, seed=3)
    first = kernel.do(0, Job.INITIAL, RANK=1)
    assert first.made.tobytes() == objective.initial.tobytes()
    assert first.integers[Slot.SAMPLES] == 719
    kernel.slots[0].given[:] = objective.initial
    gradient = kernel.do(0, Job.GRADIENT, RANK=1, FIRST=32, BATCH=8)
    expected, loss = objective.gradient(objective.initial, 1, 32)
    assert gradient.made.tobytes() == expected.tobytes()
    assert gradient.floats[Slot.LOSS] == loss
    kernel.slots[2].given[:] = objective.initial
    trained = kernel.do(2, Job.TRAIN, RANK=0, FIRST=0, STEPS=3, BATCH=8, RESET=1)
    assert trained.made.tobytes() == objective.train(objective.initial, 0, 0, 3)[0].tobytes()


def test_snapshots_are_evaluated_and_the_end_is_told(service: ComputeService, kernel: Kernel) -> None:
    slot = kernel.slots[1]
    slot.given[:] = 0  # all classes are equally likely: the loss is ln 10, and class 0 is the answer
    slot.text, slot.floats[Slot.TIME] = "server", 12.5
    kernel.do(1, Job.SNAPSHOT, VERSION=7, SAMPLES=56)
    kernel.leave()
    said = heard(service)
    row = next(one for one in said if "accuracy" in one)
    labels = Objective(WORKLOAD, 2, 3).data.test_labels
    assert (row["guest"], row["node"], row["time"], row["version"], row["samples"]) == (
        "g",
        "server",
        12.5,
        7,
        56,
    )
    assert row["loss"] == pytest.approx(np.log(10), abs=1e-6)
    assert row["accuracy"] == np.mean(labels == 0)
    assert [one["guest"] for one in said if "finished" in one] == ["g", "g"]


@pytest.mark.parametrize("kind", [Job.GRADIENT, Job.SNAPSHOT])
def test_numbers_that_are_not_finite_are_a_failed_job(kernel: Kernel, kind: Job) -> None:
    kernel.slots[0].given[:] = np.nan
    slot = kernel.do(0, kind, RANK=0)
    assert slot.integers[Slot.STATUS] == Status.FAILED
    assert "failed" in slot.text and ("nan" in slot.text or "not finite" in slot.text)
    kernel.slots[0].given[:] = 0
    assert kernel.do(0, Job.GRADIENT, RANK=0).integers[Slot.STATUS] == Status.OK


def test_a_rank_that_does_not_exist_is_a_failed_job(kernel: Kernel) -> None:
    kernel.slots[0].given[:] = 0
    slot = kernel.do(0, Job.GRADIENT, RANK=9)
    assert slot.integers[Slot.STATUS] == Status.FAILED
    assert "gradient failed" in slot.text


def test_a_dead_process_is_noticed_and_named() -> None:
    with ComputeService(2) as service:
        first, second = (service.hear(sock)["pid"] for sock in service.sockets)
        os.kill(second, signal.SIGKILL)
        with pytest.raises(ServiceDied, match=f"compute process {second} ended"):
            service.hear(service.sockets[1])
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ServiceDied, match=f"compute process {first} ended with signal 9"):
            service.hear(service.sockets[0])


def test_slots_do_not_overlap_and_start_on_pages(tmp_path: Path) -> None:
    for size in (1, 1023, 1024, 1025):
        with (tmp_path / "slots").open("w+b") as file:
            file.truncate(3 * stride(size))
            slots = map_slots(file.fileno(), 3, size)
            for number, slot in enumerate(slots):
                slot.given[:], slot.made[:], slot.text = number, number + 10, f"slot {number}"
                slot.integers[:], slot.floats[:] = number, number
            for number, slot in enumerate(slots):
                assert (slot.given == number).all() and (slot.made == number + 10).all()
                assert slot.text == f"slot {number}" and (slot.integers == number).all()
        assert stride(size) % 4096 == 0
