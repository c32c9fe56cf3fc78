"""The sim engine as the command uses it: a process per run, folders, byte-identical records."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.engines.sim.engine import SimEngine
from testbed.record.folder import RunFolder
from testbed.record.progress import Progress
from testbed.record.tables import TABLES
from testbed.spec.run import AlgorithmChoice
from tests.virtual.small import small

SCRIPT = """
import sys
from pathlib import Path
from testbed.engines.sim.engine import SimEngine
from testbed.record.folder import RunFolder
from tests.virtual.small import small
if __name__ == "__main__":
    run = small("fedavg", engine="sim")
    sys.exit(SimEngine(lambda progress: None).run([(run, RunFolder.of(Path(sys.argv[1]), run))]))
"""


@pytest.mark.parametrize("name", sorted(TABLES))
def test_records_are_equal_to_the_last_byte_whatever_the_hash_seed(twice: list[RunFolder], name: str) -> None:
    first, second = (folder.table(name).read_bytes() for folder in twice)
    assert first == second


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    """The same run in two processes with different hash seeds."""
    found = []
    for seed in ("1", "77"):
        folder = tmp_path_factory.mktemp(f"hash{seed}")
        (folder / "script.py").write_text(SCRIPT)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        subprocess.run(
            [sys.executable, str(folder / "script.py"), str(folder)], env=environment, check=True, timeout=120
        )
        found.append(RunFolder.of(folder, small("fedavg", engine="sim")))
    assert all(folder.done for folder in found)
    return found


def test_a_run_that_fails_says_why_and_does_not_take_the_other_along(tmp_path: Path) -> None:
    good = small("ssgd", engine="sim")
    wild = dataclasses.replace(good.workload, lr=1e30)
    bad = dataclasses.replace(good, workload=wild, algorithm=AlgorithmChoice("ssgd", "bad", {}))
    shown: list[Progress] = []
    work = [(run, RunFolder.of(tmp_path, run)) for run in (bad, good)]
    assert SimEngine(shown.append).run(work) == 1
    assert work[1][1].done and "the loss is nan" in (work[0][1].failure or "")
    assert {(progress.label, progress.state) for progress in shown} >= {("bad", "failed"), ("ssgd", "done")}
