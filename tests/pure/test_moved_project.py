"""Results of an algorithm from outside the project go with it, wherever it is moved or cloned to."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.record.environment import algorithm_digest, environment
from testbed.record.folder import RunFolder
from testbed.spec.run import AlgorithmChoice, RunSpec
from testbed.spec.spec_yaml import read_spec_yaml
from tests.pure.made_up_results import run_spec


def project(folder: Path) -> RunSpec:
    """A run of the algorithm in `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "idea.py").write_text("an idea")
    return replace(run_spec("idea", 1), algorithm=AlgorithmChoice("idea", "idea", {"beta": 0.5}, f"{folder}/idea.py"))


@pytest.fixture
def moved(tmp_path: Path) -> tuple[RunFolder, RunSpec]:
    """Results of a run whose project has moved, and the run as the project's new place has it."""
    first = project(tmp_path / "first")
    folder = RunFolder.of(tmp_path / "first" / "results", first)
    folder.begin(first, environment(None, first.algorithm))
    shutil.move(tmp_path / "first", tmp_path / "second")
    second = project(tmp_path / "second")
    return RunFolder.of(tmp_path / "second" / "results", second), second


def test_a_project_that_moved_knows_its_results(moved: tuple[RunFolder, RunSpec], tmp_path: Path) -> None:
    folder, run = moved
    assert folder.same_spec(run)
    made_with = json.loads((folder.path / "env.json").read_text())
    assert made_with["algorithm"] == algorithm_digest(run.algorithm)
    held = read_spec_yaml((folder.path / "spec.yaml").read_text())
    assert held.algorithm.file == f"{tmp_path}/first/idea.py"  # where it lay when it was run


@pytest.mark.parametrize(
    "changes",
    [
        {"hyper": {"beta": 0.6}},
        {"file": ""},  # the project's own algorithm of that name
    ],
)
def test_another_run_is_another_one_wherever_it_lies(
    moved: tuple[RunFolder, RunSpec], changes: dict[str, object]
) -> None:
    folder, run = moved
    assert not folder.same_spec(replace(run, algorithm=replace(run.algorithm, **changes)))  # type: ignore[arg-type]
    assert not folder.same_spec(replace(run, seed=2))


def test_an_algorithm_of_the_project_is_none_from_outside(tmp_path: Path) -> None:
    outside = project(tmp_path)
    own = replace(outside, algorithm=replace(outside.algorithm, file=""))
    folder = RunFolder.of(tmp_path / "results", own)
    folder.begin(own, environment(None, own.algorithm))
    assert folder.same_spec(own)
    assert not folder.same_spec(outside)


def test_a_spec_that_cannot_be_read_is_of_no_run(moved: tuple[RunFolder, RunSpec]) -> None:
    folder, run = moved
    (folder.path / "spec.yaml").write_text("of: another version\n")
    assert not folder.same_spec(run)
