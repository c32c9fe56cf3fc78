"""How runs end that do not end by themselves: the limit, an interrupt; nothing stays behind, and all can go on."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.engines.sim.engine import SimEngine
from testbed.engines.sim.undisturbed import undisturbed
from testbed.record.folder import RunFolder, experiment_lock
from testbed.record.progress import Progress
from testbed.spec.run import AlgorithmChoice, RunSpec
from tests.virtual.small import small

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = "interrupted; finished runs are kept, the same command goes on from here\n"

STUCK = '''\
"""Worker w1 is stuck while a file is there, and says so by another."""

import time
from pathlib import Path

from testbed.api import Algorithm, Node, NoHyper

GATE = Path(__file__).with_name("gate")


class Stuck(Algorithm[NoHyper]):
    async def worker(self, node: Node) -> None:
        while GATE.exists():
            GATE.with_name("entered").touch()
            time.sleep(0.01)
'''

EXPERIMENT = """
network: {preset: star, workers: 2, links: {rate: 10 Mbit/s, delay: 10 ms}}
workload: {data: digits, model: softmax, batch: 16, lr: 0.1}
compute: {step: 20 ms}
algorithms: [ssgd, ./stuck.py]
seeds: [1, 2]
horizon: {time: 2 s, evaluate_every: 1 s, target: 10 %}
engine: sim
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An experiment whose second run is stuck as long as there is a gate."""
    (tmp_path / "stuck.py").write_text(STUCK)
    (tmp_path / "gate").touch()
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    return tmp_path


def stuck(project: Path, seed: int = 1) -> tuple[RunSpec, RunFolder]:
    choice = AlgorithmChoice("stuck", "stuck", {}, str(project / "stuck.py"))
    run = dataclasses.replace(small(seed=seed, engine="sim"), algorithm=choice)
    return run, RunFolder.of(project / "results", run)


def wait_for(what: Callable[[], bool]) -> None:
    """Patience, for what is certain to come."""
    for _ in range(6000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_limit_ends_a_run_that_is_stuck(project: Path) -> None:
    shown: list[Progress] = []
    pids: list[int] = []

    def show(progress: Progress) -> None:
        shown.append(progress)
        pids.extend(process.pid or 0 for process in multiprocessing.active_children())

    run, folder = stuck(project)
    assert SimEngine(show, limit=1.0).run([(run, folder)]) == 1
    assert folder.failure == "stopped after 1 s, the wall-clock limit of a run\n"
    assert not folder.done
    assert [(one.state, one.detail) for one in shown] == [
        ("starting", ""),
        ("failed", "stopped after 1 s, the wall-clock limit of a run"),
    ]
    assert pids
    wait_for(lambda: all(map(gone, pids)))


@pytest.mark.parametrize("how_often", [1, 99])
def test_what_the_showing_raises_ends_every_run(project: Path, how_often: int) -> None:
    """Also if it raises again when it is told how they ended, as with a terminal that is gone."""
    pids: set[int] = set()
    raised = 0

    def show(progress: Progress) -> None:
        nonlocal raised
        pids.update(process.pid or 0 for process in multiprocessing.active_children())
        if len(pids) == 2 and raised < how_often:
            raised += 1
            raise KeyboardInterrupt("enough")

    work = [stuck(project, seed) for seed in (1, 2, 3)]
    with pytest.raises(KeyboardInterrupt, match="enough"):
        SimEngine(show, at_once=2).run(work)
    assert [folder.failure for _, folder in work] == [*["interrupted: KeyboardInterrupt enough\n"] * 2, None]
    assert not work[2][1].path.exists()  # it had not begun
    wait_for(lambda: all(map(gone, pids)))
    assert multiprocessing.active_children() == []


class Command:
    """`testbed run x.yaml` in a group of processes of its own, as a terminal starts it."""

    def __init__(self, project: Path) -> None:
        self._mark = str(uuid.uuid4())
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testbed", "run", "x.yaml", "--at-once", "1"], cwd=project, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "MARK": self._mark},
        )  # fmt: skip

    def interrupt(self, number: signal.Signals, everybody: bool) -> None:
        """A terminal's ^C goes to everybody, a kill to the command alone."""
        if everybody:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Exit code and what was said to stderr."""
        _, said = self._process.communicate(timeout=120)
        return self._process.returncode, said

    def left_behind(self) -> list[int]:
        """Processes of this command that still go, whoever has started them."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes()
                except OSError:
                    continue  # not ours, or it ended while we looked
                if self._mark.encode() in environment:
                    found.append(int(entry.name))
        return found


@pytest.mark.parametrize(
    ("number", "everybody", "reason"),
    [
        (signal.SIGINT, True, "interrupted: KeyboardInterrupt\n"),
        (signal.SIGTERM, False, "interrupted: KeyboardInterrupt signal 15\n"),
    ],
)
def test_an_interrupted_command_goes_on_where_it_was(
    project: Path, number: signal.Signals, everybody: bool, reason: str
) -> None:
    places = {(label, seed): RunFolder(project / "results" / "x" / label / f"seed={seed}")
              for label in ("ssgd", "stuck") for seed in (1, 2)}  # fmt: skip
    first = Command(project)
    wait_for((project / "entered").exists)
    first.interrupt(number, everybody)
    assert first.end() == (130, INTERRUPTED)
    wait_for(lambda: first.left_behind() == [])
    assert places["ssgd", 1].done
    assert places["stuck", 1].failure == reason and not places["stuck", 1].done
    assert [places[label, 2].path.exists() for label in ("ssgd", "stuck")] == [False, False]
    with experiment_lock(project / "results" / "x"):
        pass  # nobody holds it

    kept = {path: path.stat().st_mtime_ns for path in places["ssgd", 1].path.iterdir()}
    (project / "gate").unlink()
    second = Command(project)
    assert second.end() == (0, "")
    assert all(folder.done and folder.failure is None for folder in places.values())
    assert {path: path.stat().st_mtime_ns for path in places["ssgd", 1].path.iterdir()} == kept
    wait_for(lambda: second.left_behind() == [])


def test_a_command_that_is_interrupted_while_it_starts_says_so_and_no_more(project: Path) -> None:
    command = Command(project)
    folder = RunFolder(project / "results" / "x" / "ssgd" / "seed=1")
    wait_for((folder.path / "spec.yaml").exists)  # the process of this run is being started
    command.interrupt(signal.SIGINT, everybody=True)
    assert command.end() == (130, INTERRUPTED)
    assert folder.failure == "interrupted: KeyboardInterrupt\n"
    wait_for(lambda: command.left_behind() == [])


def test_a_signal_waits_until_what_is_undisturbed_is_through() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), undisturbed():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
