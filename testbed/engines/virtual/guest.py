"""One guest as the host sees it: a user-mode Linux process, its console, its private folder.

A guest runs as an ordinary user. It ends by powering off; whatever else happens, `close` leaves no
process and no file behind.
"""

from __future__ import annotations

import compileall
import json
import os
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from testbed.compute.service import Introduction
from testbed.engines.virtual import init
from testbed.engines.virtual.folders import PrivateFolder

MEMORY = 1024
"""MiB of a guest; more where many participants share it."""
PARTICIPANT_MEMORY = 48
"""MiB; what a participant's process makes its own, and its connections."""
SEED = 20_230_811
"""of the kernel's randomness, together with the run's seed."""
FIXED = {
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    # Reading byte code and making it take different virtual times, so guests only ever read it.
    "PYTHONDONTWRITEBYTECODE": "1",
    # Fresh pages are dear in the guest, so memory once taken is kept.
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The guest's whole environment; it moves virtual times in the fourth digit."""


def python_path() -> str:
    """Where the guest's Python finds this project and its packages without reading .pth files."""
    project = Path(__file__).resolve().parents[3]
    packages = Path(np.__file__).resolve().parents[1]
    return f"{project}:{packages}"


MARK = init.MARK.encode()


def compile_project() -> None:
    """Bring all byte code that guests read up to date, so that the first run equals every later one."""
    project = Path(__file__).resolve().parents[3]
    for package in ("testbed", "algorithms"):
        compileall.compile_dir(project / package, quiet=2)


class Guest:
    """A booting or running guest."""

    def __init__(self, name: str, core: int | None = None) -> None:
        self.name = name
        self._core = core
        self._private = PrivateFolder()
        self.folder = self._private.path
        self.console = self.folder / "console"
        self._read = 0
        self._process: subprocess.Popen[bytes] | None = None

    def boot(
        self,
        kernel: Path,
        task: str,
        order: dict[str, Any],
        seed: int,
        intro: Introduction | None = None,
        participants: int = 0,
    ) -> None:
        """Start the guest on a task of `init`. `order` names the folder of its results and all else it needs.

        Without an introduction it cannot reach the compute service. `participants` sets its memory.
        """
        shared = [f"doorbell={intro.ring},{intro.answer}", f"iomem=mmapper,{intro.memory}"] if intro else []
        with self.console.open("wb") as console:
            self._process = subprocess.Popen(
                [*self._command(kernel, participants), "con0=null,fd:1", *shared, *self._first_process(task, order)],
                pass_fds=[intro.ring, intro.answer] if intro else [], stdin=subprocess.DEVNULL, stdout=console,
                stderr=subprocess.STDOUT, process_group=0, env=self._environment(seed),
            )  # fmt: skip

    def interact(self, kernel: Path, task: str, order: dict[str, Any], seed: int) -> int:
        """As `boot`, but on this terminal and until the guest powers off; its exit code."""
        command = [*self._command(kernel), "con0=fd:0,fd:1", *self._first_process(task, order)]
        saved = termios.tcgetattr(0) if sys.stdin.isatty() else None
        try:
            return subprocess.run(
                command, env=self._environment(seed), stderr=subprocess.DEVNULL, check=False
            ).returncode
        finally:
            if saved is not None:  # the guest's console leaves the terminal raw
                termios.tcsetattr(0, termios.TCSADRAIN, saved)

    def _command(self, kernel: Path, participants: int = 0) -> list[str]:
        """The kernel and its settings.

        A guest must not outlive the command, even one that is killed. And it has one processor, its kernel
        and its processes taking turns: held to one core they are a third faster, because no turn has to
        wake another core.
        """
        memory = max(MEMORY, MEMORY // 2 + PARTICIPANT_MEMORY * participants)
        held = [] if self._core is None else ["taskset", "--cpu-list", str(self._core)]
        return [
            *held, "setpriv", "--pdeathsig", "KILL", str(kernel), f"mem={memory}M",
            "root=hostfs", "rootfstype=hostfs", "rootflags=/", "rw",
            "time-travel=inf-cpu", "time-travel-start=1000000000000000000", "con=null", "panic=-1", "quiet",
            # The seeded generator counts as entropy, or the first draw would wait for the kernel to gather some.
            "random.trust_cpu=on", "random.trust_bootloader=on", f"uml_dir={self.folder}", "umid=guest",
        ]  # fmt: skip

    def _environment(self, seed: int) -> dict[str, str]:
        return {"TMPDIR": str(self.folder), "UML_RANDOM_SEED": str(SEED + seed), "PATH": FIXED["PATH"]}

    def _first_process(self, task: str, order: dict[str, Any]) -> list[str]:
        """The end of the kernel's command line: the guest's environment, and Python with its arguments."""
        path = self.folder / "order.json"
        path.write_text(json.dumps(order))
        environment = {**FIXED, "PYTHONPATH": python_path()}
        return [
            *(f"{key}={value}" for key, value in environment.items()), f"init={sys.executable}", "--",
            "-S", "-m", "testbed.engines.virtual.init", task, str(path),
        ]  # fmt: skip

    def pidfd(self) -> int:
        """A descriptor that becomes readable when the guest ends; the caller closes it."""
        assert self._process is not None
        return os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def lines(self) -> list[dict[str, Any]]:
        """What `init` said on the console since the last call, in whole lines."""
        with self.console.open("rb") as file:
            file.seek(self._read)
            *whole, rest = file.read().split(b"\n")
            self._read = file.tell() - len(rest)
        return [json.loads(line.removeprefix(MARK)) for line in whole if line.startswith(MARK)]

    def tail(self, count: int = 20) -> str:
        """The end of the console, for the reason of a failure."""
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        beats = MARK.decode() + '{"state": "pro'  # signs of life say nothing about a failure
        return "\n".join([line for line in text.splitlines() if not line.startswith(beats)][-count:])

    def kill(self) -> None:
        """End every process of the guest at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int | None:
        """End the guest if it still runs and remove its folder; its exit code."""
        self.kill()
        code = self._process.wait(10) if self._process is not None else None
        self._private.remove()
        return code
