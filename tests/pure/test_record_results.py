"""Reading an experiment back: frames of finished runs, and a row for every run that is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.record import load_results
from testbed.record.folder import RunFolder
from testbed.spec.faults import SpecError
from tests.pure.made_up_results import MadeUp, run_spec


def test_frames_carry_algorithm_and_seed_and_specs_come_back(tmp_path: Path) -> None:
    MadeUp("ssgd", 2, [(1.0, 0.5)], [(0.5, 100)]).write(tmp_path)
    MadeUp("fedavg", 10, [(2.0, 0.6), (3.0, 0.7)]).write(tmp_path)
    results = load_results(tmp_path, "demo")
    assert results.metrics[["algorithm", "seed", "time"]].values.tolist() == [
        ["fedavg", 10, 2.0],
        ["fedavg", 10, 3.0],
        ["ssgd", 2, 1.0],
    ]
    assert results.messages["bytes"].tolist() == [100]
    assert list(results.links.columns)[:3] == ["algorithm", "seed", "time"]
    assert results.specs["ssgd", 2] == run_spec("ssgd", 2)


def test_runs_that_are_not_done_are_listed_with_their_reason(tmp_path: Path) -> None:
    MadeUp("fedavg", 1, [(1.0, 0.5)]).write(tmp_path)
    RunFolder.of(tmp_path, run_spec("fedavg", 2)).fail("w3 is lost: reset\n\nconsole:\n...")
    RunFolder.of(tmp_path, run_spec("ssgd", 1)).begin(run_spec("ssgd", 1), {})
    results = load_results(tmp_path, "demo", expected=[("ssgd", 1), ("fedavg", 1), ("fedavg", 2), ("easgd", 1)])
    assert results.algorithms == ["ssgd", "fedavg", "easgd"]
    assert results.lost[["algorithm", "seed", "state"]].values.tolist() == [
        ["ssgd", 1, "unfinished"],
        ["fedavg", 2, "failed"],
        ["easgd", 1, "missing"],
    ]
    assert results.lost["reason"].tolist()[1] == "w3 is lost: reset"
    assert results.metrics["seed"].tolist() == [1]


def test_a_seed_that_only_others_have_is_missing(tmp_path: Path) -> None:
    for seed in (1, 2):
        MadeUp("fedavg", seed, [(1.0, 0.5)]).write(tmp_path)
    MadeUp("ssgd", 2, [(1.0, 0.5)]).write(tmp_path)
    lost = load_results(tmp_path, "demo").lost
    assert lost[["algorithm", "seed", "state"]].values.tolist() == [["ssgd", 1, "missing"]]


def test_done_without_metrics_does_not_count(tmp_path: Path) -> None:
    folder = MadeUp("fedavg", 1, [(1.0, 0.5)]).write(tmp_path)
    folder.table("metrics").unlink()
    assert load_results(tmp_path, "demo").lost["state"].tolist() == ["failed"]


@pytest.mark.parametrize(
    ("verdict", "said"),
    [([], ""), (["a", "b"], "a; b"), ("late", "late"), (True, "marked as degraded"), (False, "")],
)
def test_the_fidelity_record_marks_a_run(tmp_path: Path, verdict: object, said: str) -> None:
    folder = MadeUp("fedavg", 1, [(1.0, 0.5)]).write(tmp_path)
    (folder.path / "fidelity.json").write_text(json.dumps({"degraded": verdict}))
    assert load_results(tmp_path, "demo").runs["degraded"].tolist() == [said]


def test_no_such_experiment_and_a_damaged_spec_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        load_results(tmp_path, "nothing")
    folder = MadeUp("fedavg", 1, [(1.0, 0.5)]).write(tmp_path)
    (folder.path / "spec.yaml").write_text("experiment: [")
    with pytest.raises(SpecError, match=r"spec.yaml"):
        load_results(tmp_path, "demo")


def test_what_is_imported_early_stays_light() -> None:
    code = (
        "import sys, testbed.analysis.live, testbed.record.tables, testbed.record.folder;"
        "heavy = ('pandas', 'pyarrow', 'matplotlib', 'torch', 'numpy');"
        "print([name for name in heavy if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
