"""Runs the build's commands: logged, within one time limit for all, and gone when the build is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

LAST_LINES = 30

# A fixed date and name, so that the same recipe gives the same bytes on every machine.
FIXED = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01",
    "KBUILD_BUILD_USER": "testbed",
    "KBUILD_BUILD_HOST": "testbed",
    "KBUILD_BUILD_VERSION": "1",
    "XZ_DEFAULTS": "--threads=0",
}


class CommandFailed(Exception):
    """A command failed or was stopped. `last_lines` is the end of what was logged."""

    def __init__(self, what: str, last_lines: list[str]) -> None:
        super().__init__(what)
        self.last_lines = last_lines


class Commands:
    """Commands that share a folder, a log and `limit` seconds. They inherit the descriptor `lock`."""

    def __init__(self, folder: Path, log: Path, limit: float, lock: int) -> None:
        self.folder = folder
        self._log = log
        self._limit = limit
        self._ends = time.monotonic() + limit
        self._lock = lock
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        log.write_text("")

    def run(self, *command: str) -> None:
        """Runs one command to its end. CommandFailed when it fails or time is up."""
        for _ in self.lines(*command):
            pass

    def lines(self, *command: str) -> Iterator[str]:
        """Runs one command and yields what it says, errors included.

        Its output is a pipe to this process on purpose: if this process is killed, the command stops at
        the next line that it writes.
        """
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(self._lock,),
            start_new_session=True,
        )
        timer = threading.Timer(max(0.0, self._ends - time.monotonic()), _end, (process,))
        timer.daemon = True
        timer.start()
        assert process.stdout is not None
        try:
            with self._log.open("a") as log:
                log.write(f"$ {' '.join(command)}\n")
                for line in process.stdout:
                    log.write(line)
                    self._last.append(line.rstrip("\n"))
                    yield line
            code = process.wait()
        finally:
            timer.cancel()
            _end(process)
            process.stdout.close()
            process.wait()
        if time.monotonic() >= self._ends:
            raise CommandFailed(f"{command[0]} was stopped after {self._limit:.0f} s", list(self._last))
        if code != 0:
            raise CommandFailed(f"{command[0]} ended with code {code}", list(self._last))


def _environment() -> dict[str, str]:
    """Only what a build needs: a MAKEFLAGS or CFLAGS of the caller's would change what is built."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return kept | FIXED


def _end(process: subprocess.Popen[str]) -> None:
    """Kills the command and all that it started, if it still runs."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
