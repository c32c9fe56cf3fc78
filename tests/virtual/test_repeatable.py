"""The same file and seed give the same records to the last bit, whatever the machine does besides."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from testbed.record.folder import RunFolder
from testbed.record.tables import TABLES
from testbed.spec.run import RunSpec, Tcp
from tests.virtual.small import ROUGH, carry_out, small


def _burn(stop: multiprocessing.synchronize.Event) -> None:
    block = b"x" * 65536
    while not stop.is_set():
        hashlib.sha256(block).digest()


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Processes that use up `count` cores while the body runs."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    burners = [context.Process(target=_burn, args=(stop,)) for _ in range(count)]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        stop.set()
        for burner in burners:
            burner.join(10)


def assert_equal_records(one: RunFolder, other: RunFolder) -> None:
    for folder in (one, other):
        assert folder.failure is None, folder.failure
    for name in TABLES:
        first, second = pd.read_parquet(one.table(name)), pd.read_parquet(other.table(name))
        assert len(first) > 5 or name == "notes"  # these algorithms note nothing
        pd.testing.assert_frame_equal(first, second, check_exact=True, obj=name)
        assert one.table(name).read_bytes() == other.table(name).read_bytes()


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(small("ssgd"), id="cubic"),
        pytest.param(small("ssgd", network=ROUGH, tcp=Tcp("bbr")), id="bbr, loss and jitter"),
        pytest.param(small("fedavg", network=ROUGH, hyper={"fraction": 0.7}), id="cubic, loss and jitter"),
    ],
)
def test_two_runs_are_equal_to_the_last_bit(kernel: Path, tmp_path: Path, run: RunSpec) -> None:
    quiet, _ = carry_out(kernel, tmp_path / "quiet", [run])
    with busy_cores(2):
        busy, _ = carry_out(kernel, tmp_path / "a folder of another length", [run])
    assert_equal_records(quiet[0], busy[0])
