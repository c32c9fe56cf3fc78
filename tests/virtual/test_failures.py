"""What goes wrong becomes FAILED with its reason, in time, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.engines.virtual import supervised
from testbed.engines.virtual.engine import Limits
from testbed.engines.virtual.folders import remove_abandoned, temporary_root
from testbed.engines.virtual.guest import Guest
from testbed.record.progress import Progress
from testbed.spec.run import Horizon
from tests.virtual.small import carry_out, small

EXPERIMENT = """
network: {preset: star, workers: 2, links: {rate: 10 Mbit/s, delay: 10 ms}}
workload: {data: digits, model: softmax, batch: 16, lr: 0.1}
compute: {step: 20 ms}
algorithms: [ssgd]
horizon: {time: 10 h, evaluate_every: 1 min, target: 99 %}
"""
LONG = Horizon(time=100_000, evaluate_every=1000, target=0.8)


def processes_of(folder: str) -> list[int]:
    """Processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it ended while we looked
            if folder.encode() in command:
                found.append(int(entry.name))
    return found


@pytest.fixture(autouse=True)
def nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Guests of a test have a temporary folder to themselves, which has to be empty afterwards."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield
    assert temporary_root() == folder
    assert list(folder.iterdir()) == []
    assert not processes_of(f"uml_dir={folder}")


@pytest.fixture
def replaced_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Makes guests run a script of the test in the place of their run."""

    def replace(script: str) -> None:
        path = tmp_path / "script.py"
        path.write_text(script)
        boot = Guest.boot

        def boot_script(self: Guest, kernel: Path, task: str, order: dict[str, Any], *rest: Any) -> None:
            boot(self, kernel, "script", {**order, "script": str(path), "arguments": [json.dumps(order)]}, *rest)

        monkeypatch.setattr(supervised.Guest, "boot", boot_script)

    return replace


def failure(kernel: Path, tmp_path: Path, **settings: Any) -> tuple[str, float]:
    """The reason of a run that fails, and the seconds it took to fail."""
    began = time.monotonic()
    run = settings.pop("run", small(horizon=LONG))
    folders, shown = carry_out(kernel, tmp_path / "results", [run], **settings)
    assert not folders[0].done
    assert shown[-1].state == "failed"
    assert folders[0].failure is not None
    return folders[0].failure, time.monotonic() - began


def test_a_panic_is_named(kernel: Path, tmp_path: Path, replaced_task: Callable[[str], None]) -> None:
    replaced_task("open('/proc/sysrq-trigger', 'w').write('c')")
    reason, _ = failure(kernel, tmp_path)
    assert reason.startswith("the guest's kernel stopped: Kernel panic")
    assert "sysrq triggered crash" in reason


@pytest.mark.parametrize("script", ["while True: pass", "import os\nos.read(os.pipe()[0], 1)"])
def test_a_guest_that_hangs_is_ended(
    kernel: Path, tmp_path: Path, replaced_task: Callable[[str], None], script: str
) -> None:
    replaced_task("from testbed.engines.virtual.init import say\nsay('booted')\n" + script)
    reason, seconds = failure(kernel, tmp_path, limits=Limits(whole=60, silence=4))
    assert reason.startswith("no word from the guest for 4 s: it hangs")
    assert seconds < 30


def test_the_wall_clock_limit_holds(kernel: Path, tmp_path: Path) -> None:
    reason, seconds = failure(kernel, tmp_path, limits=Limits(whole=8, silence=60))
    assert reason.startswith("stopped after 8 s, the wall-clock limit of a run")
    assert seconds < 30


def kill_while_training(monkeypatch: pytest.MonkeyPatch, whom: Callable[[], int]) -> None:
    """Send SIGKILL to whoever `whom` finds, a moment after training has begun."""
    tell = supervised.SupervisedRun._tell
    killed = threading.Event()

    def tell_and_kill(self: supervised.SupervisedRun, detail: str = "") -> None:
        tell(self, detail)
        if self._state == "training" and not killed.is_set():
            killed.set()
            os.kill(whom(), signal.SIGKILL)

    monkeypatch.setattr(supervised.SupervisedRun, "_tell", tell_and_kill)


def children(name: str) -> list[int]:
    """Our own child processes whose command line holds `name`."""
    mine = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in mine if name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_killed_guest_is_noticed(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_while_training(monkeypatch, lambda: children("uml_dir=")[0])
    reason, _ = failure(kernel, tmp_path)
    assert reason.startswith("the guest ended without a word")
    assert "console:" in reason


def test_a_dead_compute_process_ends_every_run(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_while_training(monkeypatch, lambda: children("testbed.compute.process")[0])
    runs = [small(seed=seed, horizon=LONG) for seed in (1, 2, 3)]
    folders, _ = carry_out(kernel, tmp_path, runs, at_once=2)
    reasons = [folder.failure or "" for folder in folders]
    assert all("the compute service died: compute process" in reason for reason in reasons)
    assert all("signal 9" in reason for reason in reasons)
    assert reasons[2].startswith("not started")


def test_a_job_that_raises_ends_the_run_with_the_reason(kernel: Path, tmp_path: Path) -> None:
    run = small()
    hot = dataclasses.replace(run, workload=dataclasses.replace(run.workload, lr=1e30))
    reason, _ = failure(kernel, tmp_path, run=hot)
    assert "ComputeFailed" in reason
    assert "a smaller lr than 1e+30 may help" in reason or "not finite" in reason


def test_a_killed_command_takes_its_guests_along(kernel: Path, tmp_path: Path) -> None:
    experiment = tmp_path / "killed.yaml"
    experiment.write_text(EXPERIMENT)
    command = [sys.executable, "-m", "testbed", "run", str(experiment), "--results", str(tmp_path / "results")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("training" in line for line in process.stdout)
        process.kill()
    (folder,) = temporary_root().iterdir()
    limit = time.monotonic() + 10
    while processes_of(f"uml_dir={folder}") and time.monotonic() < limit:
        time.sleep(0.1)
    assert not processes_of(f"uml_dir={folder}")
    os.utime(folder, (0, 0))  # the next command removes it, once it is old enough to be nobody's
    assert folder in remove_abandoned()


def test_an_interrupted_command_gives_its_runs_a_last_word(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.state == "training":
            raise KeyboardInterrupt("signal 15")

    from testbed.engines.virtual.engine import VirtualEngine
    from testbed.record.folder import RunFolder

    run = small(horizon=LONG)
    folder = RunFolder.of(tmp_path, run)
    with pytest.raises(KeyboardInterrupt):
        VirtualEngine(kernel, interrupt).run([(run, folder)])
    assert (folder.failure or "").startswith("interrupted: KeyboardInterrupt signal 15")


def test_a_network_that_is_not_what_the_file_says_is_refused(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testbed.network.plan import plan

    def lying_plan(*arguments: Any) -> Any:
        honest = plan(*arguments)
        wrong = tuple(dataclasses.replace(e, round_trip=e.round_trip + 0.001) for e in honest.expectations)
        return dataclasses.replace(honest, expectations=wrong)

    monkeypatch.setattr(supervised, "plan", lying_plan)
    reason, _ = failure(kernel, tmp_path)
    assert "the network is not what the file says (12 faults)" in reason
    run = small()
    folders, _ = carry_out(kernel, tmp_path / "marked", [run], keep_going=True)
    assert folders[0].done
    assert len(json.loads((folders[0].path / "fidelity.json").read_text())["degraded"]) == 12


def test_a_failed_run_does_not_touch_the_next_one(kernel: Path, tmp_path: Path) -> None:
    good = small(seed=2)
    hot = small(workload=dataclasses.replace(good.workload, lr=1e30))
    folders, _ = carry_out(kernel, tmp_path / "results", [hot, good], at_once=1)
    assert "ComputeFailed" in (folders[0].failure or "")
    assert folders[1].done, folders[1].failure


def test_a_participant_that_dies_is_named(kernel: Path, tmp_path: Path, replaced_task: Callable[[str], None]) -> None:
    replaced_task(
        "import os, signal, sys\n"
        "import json, testbed.engines.virtual.session as session\n"
        "from pathlib import Path\n"
        "from testbed.engines.virtual.init import RESULTS, say\n"
        "live = session.live\n"
        "def dying(around, place, pipes, enter):\n"
        "    if place.name == 'w2':\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    live(around, place, pipes, enter)\n"
        "session.live = dying\n"
        "session.carry_out(json.loads(sys.argv[1]), RESULTS, say)\n"
    )
    reason, seconds = failure(kernel, tmp_path, run=small())
    assert reason.startswith("RunFailed: w2 ended by itself with SIGSEGV")
    assert seconds < 40


def test_no_process_of_a_guest_outlives_its_kernel(kernel: Path, tmp_path: Path) -> None:
    script = tmp_path / "spin.py"
    script.write_text("from testbed.engines.virtual.init import say\nsay('booted')\nwhile True: pass")
    guest = Guest("test")
    try:
        guest.boot(kernel, "script", {"results": str(tmp_path), "script": str(script), "arguments": []}, seed=1)
        limit = time.monotonic() + 30
        while not guest.lines() and time.monotonic() < limit:
            time.sleep(0.1)
        os.kill(guest.pid, signal.SIGKILL)  # the kernel alone, not its group
        assert guest._process is not None
        guest._process.wait(10)
        while processes_of(f"uml_dir={guest.folder}") and time.monotonic() < limit:
            time.sleep(0.1)
        assert not processes_of(f"uml_dir={guest.folder}")
    finally:
        guest.close()
