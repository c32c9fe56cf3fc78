"""The command's edge: exit code 2, one message, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from testbed.cli import app
from testbed.record.folder import InUse, NoResultsFolder, RunFolder, experiment_lock
from testbed.runtime.finder import algorithm_names, catalogue
from testbed.spec.expand import expand, with_engine
from testbed.spec.experiment import load_experiment
from testbed.spec.run import RunSpec

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
    assert "on the virtual engine" in " ".join(done.stdout.split())


def test_another_engine_has_results_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    done = command(tmp_path, "check", "x.yaml", "--engine", "sim")
    assert "on the sim engine" in " ".join(done.stdout.split())
    (tmp_path / "results" / "x").mkdir(parents=True)
    done = command(tmp_path, "report", "x.yaml", "--engine", "sim")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "results/x-sim does not exist; run it first: testbed run x.yaml --engine sim\n"


def test_the_sim_engine_needs_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    class SimEngine:
        def __init__(self, show: object, *, at_once: int | None, limit: float) -> None:
            asked.extend([at_once, limit])

        def run(self, work: list[tuple[RunSpec, RunFolder]]) -> int:
            asked.extend(sorted({(run.engine, str(folder.path.parents[1])) for run, folder in work}))
            return len(work)

    stand_in = ModuleType("testbed.engines.sim.engine")
    vars(stand_in)["SimEngine"] = SimEngine
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.setenv("TESTBED_KERNEL", "/nowhere/linux")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    done = CliRunner().invoke(app, ["run", "x.yaml", "--engine", "sim", "--at-once", "2", "--limit", "60"])
    assert done.exit_code == 1  # as many runs failed as it says
    assert asked == [2, 60.0, ("sim", "results/x-sim")]


def test_the_engine_of_the_file_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT + "engine: sim\n")
    (tmp_path / "y.yaml").write_text(EXPERIMENT)
    experiments = [load_experiment(tmp_path / name, catalogue()) for name in ("x.yaml", "y.yaml")]
    named = [[with_engine(one, engine).name for engine in (None, "sim", "virtual")] for one in experiments]
    assert named == [["x", "x", "x-virtual"], ["y", "y-sim", "y"]]
    run = expand(with_engine(experiments[1], "sim"))[0]
    assert (run.experiment, run.engine) == ("y-sim", "sim")


def test_algorithms_are_listed_and_shown(tmp_path: Path) -> None:
    done = command(tmp_path, "algorithms")
    assert (done.returncode, done.stderr) == (0, "")
    assert "local_steps = 10" in done.stdout and "E: local steps in a round." in done.stdout
    assert "algorithm 1." not in done.stdout
    assert "algorithm 1." in command(tmp_path, "algorithms", "fedavg").stdout
    names = [one["name"] for one in json.loads(command(tmp_path, "algorithms", "--json").stdout)]
    assert names == algorithm_names()


def test_a_new_algorithm_can_be_compared_at_once(tmp_path: Path) -> None:
    done = command(tmp_path, "new", "algorithm", "idea")
    assert (done.returncode, done.stderr) == (0, "")
    assert "algorithms: [./idea.py]" in done.stdout
    (tmp_path / "x.yaml").write_text(EXPERIMENT.replace("[ssgd,", "[./idea.py,"))
    assert "6 runs of idea, fedavg" in " ".join(command(tmp_path, "check", "x.yaml").stdout.split())
    assert "local_steps = 5" in command(tmp_path, "algorithms", "ssgd", "./idea.py").stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["run", "x.yaml"], {}, 'x.yaml:3: workload.model: "softmaxx" is not a model'),
        (["run", "none.yaml"], {}, "none.yaml"),
        (["rnu", "x.yaml"], {}, "No such command"),
        (
            ["run", "good.yaml", "--engine", "simm"],
            {},
            '"simm" is not an engine; did you mean "sim"? Known: sim, virtual.',
        ),
        (["algorithms", "fedavgg"], {}, '"fedavgg" is not an algorithm; did you mean "fedavg"?'),
        (["algorithms", "./none.py"], {}, "none.py; check the path"),
        (["new", "algorithm", "My"], {}, '"My" cannot name an algorithm; use'),
        (["new", "algorithm", "ssgd"], {}, "algorithms/ssgd.py exists already; take another name"),
        (["new", "algorithm", "idea", "--folder", "good.yaml"], {}, "good.yaml cannot be written: File exists"),
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
