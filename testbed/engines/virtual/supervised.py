"""One run from the host's side: boot, follow, collect, and the last word DONE or FAILED."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.compute.service import ComputeService, ServiceDied
from testbed.engines.virtual.guest import Guest
from testbed.network.plan import plan
from testbed.record.environment import environment
from testbed.record.folder import RunFolder
from testbed.record.progress import Progress, State
from testbed.record.tables import TABLES, jsonl_to_parquet
from testbed.runtime.finder import find_algorithm
from testbed.runtime.places import places
from testbed.spec.run import RunSpec, to_plain
from testbed.workload.models import dimension

_STATES: dict[str, State] = {
    "booted": "booting", "built": "probing", "probing": "probing", "probed": "probing", "ready": "probing",
    "training": "training", "progress": "training", "done": "evaluating",
}  # fmt: skip


class SupervisedRun:
    """A run under way. The engine calls `follow` often and `close` once it is `finished`."""

    def __init__(
        self,
        name: str,
        run: RunSpec,
        folder: RunFolder,
        show: Callable[[Progress], None],
        *,
        processes: int,
        core: int,
    ) -> None:
        self.finished = False
        self.pidfd = -1
        self._name, self._run, self._folder, self._show = name, run, folder, show
        self.core = core
        self._guest = Guest(name, core)
        self._began = self._spoke = time.monotonic()
        self._state: State = "booting"
        self._time, self._sent, self._accuracy = 0.0, 0, None
        self._metrics: list[dict[str, Any]] = []
        self._stamps: list[dict[str, Any]] = []
        self._unfinished = processes
        self._said_done = False
        self._guest_gone = False

    def boot(self, kernel: Path, service: ComputeService, *, keep_going: bool) -> None:
        """Lay everything out and start the guest."""
        run, folder = self._run, self._folder
        folder.begin(run, environment(kernel, run.algorithm))
        size = dimension(run.workload.model, run.workload.data)
        slots = 2 * len(places(run, find_algorithm(run.algorithm).roles))
        intro = service.introduce(self._name, run, self._guest.folder / "slots", slots, size)
        try:
            order = {
                "run": to_plain(run), "plan": to_plain(plan(run.network, run.tcp)), "dimension": size,
                "results": str(folder.path.resolve()), "keep_going": keep_going,
            }  # fmt: skip
            self._guest.boot(kernel, "run", order, run.seed, intro, slots // 2)
        finally:
            os.close(intro.ring)
            os.close(intro.answer)
        self.pidfd = self._guest.pidfd()
        self._tell()

    @contextmanager
    def failing_alone(self) -> Iterator[None]:
        """An error of the body is this run's failure and nobody else's, unless the service is gone."""
        try:
            yield
        except ServiceDied:
            raise
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}", traceback.format_exc())

    def hear(self, said: dict[str, Any]) -> None:
        """Take what a compute process said about this run."""
        if "failed" in said:
            self.fail(f"compute service: {said['failed']}")
        elif "finished" in said:
            self._unfinished -= 1
        else:
            self._metrics.append(said)
            newest = max(self._metrics, key=lambda row: row["time"])
            self._accuracy = newest["accuracy"]
            self._tell()

    def guest_ended(self) -> None:
        """The guest's process has ended, one way or another."""
        self._guest_gone = True

    def follow(self, now: float, whole: float, silence: float) -> None:
        """Read the console, enforce the limits, and conclude when there is nothing more to come."""
        for line in self._guest.lines():
            self._spoke = now
            self._take(line)
        if self.finished:
            return
        if now - self._began > whole:
            self.fail(f"stopped after {whole:g} s, the wall-clock limit of a run")
        elif self._guest_gone:
            self._conclude()
        elif now - self._spoke > silence:
            self.fail(f"no word from the guest for {silence:g} s: it hangs")

    def _take(self, line: dict[str, Any]) -> None:
        state = line["state"]
        if state == "failed":
            self.fail(line["reason"], line.get("trace", ""))
            return
        if "host_ns" in line:
            self._stamps.append(
                {"state": state, "host": line["host_ns"] / 1e9 - self._began, "held": line["held_ns"] / 1e9}
            )
        self._said_done = self._said_done or state == "done"
        self._time = line.get("time", self._time)
        self._sent = line.get("sent_bytes", self._sent)
        self._state = _STATES[state]
        self._tell()

    def _conclude(self) -> None:
        """The guest is gone: a failure if it did not say so before, else wait for the evaluation."""
        if not self._said_done:
            panic = [line for line in self._guest.tail().splitlines() if line.startswith("Kernel panic")]
            self.fail(f"the guest's kernel stopped: {panic[0]}" if panic else "the guest ended without a word")
        elif self._unfinished == 0:
            self._collect()
            self._folder.finish()
            self._state, self.finished = "done", True
            self._tell()

    def _collect(self) -> None:
        """Turn what was written line by line into tables."""
        order = sorted(self._metrics, key=lambda row: (row["time"], row["node"], row["version"]))
        with (self._folder.records / "host-metrics.jsonl").open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in order)
        for table in TABLES:
            if jsonl_to_parquet(self._folder.path, table).dropped:
                raise ValueError(f"a line of {table} is cut off although the guest ended well")
        self._folder.drop_lines()
        self._write_profile()

    def _write_profile(self) -> None:
        """Where the machine's seconds went, from the guest's own stamps."""
        ended = {"state": "evaluated", "host": time.monotonic() - self._began, "held": None}
        (self._folder.path / "profile.json").write_text(json.dumps([*self._stamps, ended], indent=1) + "\n")

    def fail(self, reason: str, detail: str = "") -> None:
        """End this run as FAILED. The first reason stands."""
        if self.finished:
            return
        self._guest.kill()
        tail = self._guest.tail()
        self._folder.fail("\n".join(part for part in (reason, detail, "", "console:", tail) if part))
        self._state, self.finished = "failed", True
        self._tell(reason.splitlines()[0])

    def close(self) -> None:
        """Leave nothing behind."""
        self._guest.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def _tell(self, detail: str = "") -> None:
        self._show(
            Progress(
                self._run.algorithm.label, self._run.seed, self._state, self._time, self._accuracy,
                self._sent, time.monotonic() - self._began, detail,
            )
        )  # fmt: skip
