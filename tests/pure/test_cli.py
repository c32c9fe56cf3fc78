"""The command's edge: exit code 2, one message, nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.record.folder import InUse, NoResultsFolder, experiment_lock

EXPERIMENT = """
network: {preset: star, workers: 2, links: {rate: 10 Mbit/s, delay: 10 ms}}
workload: {data: digits, model: softmax, batch: 16, lr: 0.1}
compute: {step: 20 ms}
algorithms: [ssgd, {fedavg: {local_steps: 5}}]
seeds: 1..3
horizon: {time: 10 s, evaluate_every: 1 s, target: 90 %}
"""


def command(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, "-m", "testbed", *arguments], cwd=folder, text=True, capture_output=True, timeout=60,
        check=False, env={**os.environ, "PYTHONPATH": str(root), **environment},
    )  # fmt: skip


def test_a_good_file_is_summed_up(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    done = command(tmp_path, "check", "x.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 runs of ssgd, fedavg over 3 seeds, 2 workers" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["run", "x.yaml"], {}, 'x.yaml:3: workload.model: "softmaxx" is not a model'),
        (["run", "none.yaml"], {}, "none.yaml"),
        (["rnu", "x.yaml"], {}, "No such command"),
        (["report", "good.yaml"], {}, "does not exist; run it first"),
        (["run", "good.yaml"], {"TESTBED_KERNEL": "/nowhere/linux"}, "TESTBED_KERNEL names /nowhere/linux"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], words: str
) -> None:
    (tmp_path / "good.yaml").write_text(EXPERIMENT)
    (tmp_path / "x.yaml").write_text(EXPERIMENT.replace("softmax", "softmaxx"))
    before = sorted(tmp_path.iterdir())
    done = command(tmp_path, *arguments, **environment)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_results_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(NoResultsFolder, match="Not a directory; take another --results folder"),
        experiment_lock(tmp_path / "file" / "x"),
    ):
        pass


def test_two_commands_cannot_run_one_experiment_at_once(tmp_path: Path) -> None:
    second = experiment_lock(tmp_path / "x")
    with experiment_lock(tmp_path / "x"), pytest.raises(InUse, match="in use by another command"):
        second.__enter__()
    with experiment_lock(tmp_path / "x"):
        pass  # free again
