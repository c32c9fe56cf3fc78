"""`testbed calibrate` with wrong input: exit code 2, one message, nothing written."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.record.folder import RunFolder
from tests.pure.made_up_results import run_spec
from tests.pure.test_cli import EXPERIMENT, command

KERNEL = {"TESTBED_KERNEL": sys.executable}
"""Some program: nothing is started before all is found to be in order."""


def refused(folder: Path, *arguments: str, **environment: str) -> str:
    """What `testbed calibrate` says that ends with 2 and leaves everything as it was."""
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    done = command(folder, "calibrate", *arguments, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before
    return done.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("softmax", "softmaxx", 'x.yaml:3: workload.model: "softmaxx" is not a model; did you mean "softmax"?'),
        ("10 Mbit/s", "10 Mbit", 'x.yaml:2: network.links.rate: "10 Mbit" is '),
        ("[ssgd", "[./none.py", "x.yaml:5: algorithms[0]: there is no file none.py; check the path"),
    ],
)
def test_a_fault_in_the_file_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT.replace(old, new, 1))
    said = refused(tmp_path, "x.yaml", **KERNEL).replace(f"{tmp_path}/", "")
    assert said.startswith(message)
    assert said.count("\n") == 1


def test_no_such_file(tmp_path: Path) -> None:
    said = refused(tmp_path, "none.yaml")
    assert "none.yaml" in said and said.count("\n") == 1


def test_no_run_at_a_time_is_not_possible(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    said = refused(tmp_path, "x.yaml", "--at-once", "0").splitlines()
    errors = [line for line in said if line.startswith("Error")]
    assert len(errors) == 1 and errors[0].startswith("Error: Invalid value for '--at-once': ")


def test_there_is_nothing_to_compare_with_without_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    said = refused(tmp_path, "x.yaml", TESTBED_KERNEL="/nowhere/linux")
    assert said == "TESTBED_KERNEL names /nowhere/linux, which is no program. Correct it or unset it.\n"


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    said = refused(tmp_path, "x.yaml", "--results", "x.yaml", **KERNEL)
    assert said == "x.yaml/x: Not a directory; take another --results folder\n"


@pytest.mark.parametrize("place", ["x-sim/ssgd", "x/ssgd", "x-sim/calibration/sim/into-one"])
def test_runs_of_another_file_are_not_replaced_on_either_engine(tmp_path: Path, place: str) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    results, label = Path(place).parent, Path(place).name
    run = replace(run_spec(label, 1), experiment=results.name)
    folder = RunFolder.of(tmp_path / "results" / results.parent, run)
    folder.begin(run, {})
    folder.finish()
    said = refused(tmp_path, "x.yaml", **KERNEL)
    assert said.startswith(f"results/{place}/seed=1 holds a finished run of another experiment file (1 in all); ")
    assert said.count("\n") == 1
