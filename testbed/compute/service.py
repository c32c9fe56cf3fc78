"""The parent's side of the compute service: starts the processes, introduces guests, hears results.

The parent itself never imports torch, so it is quick to start and never busy when a guest needs care.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed.compute.arithmetic import SETTINGS
from testbed.compute.slots import stride
from testbed.spec.run import RunSpec, to_plain


class ServiceDied(Exception):
    """A compute process ended by itself; every run that was under way is lost."""


@dataclass(frozen=True)
class Introduction:
    """What a guest's kernel has to inherit. The caller closes both pipe ends once the guest runs."""

    memory: Path
    ring: int
    answer: int


class ComputeService:
    """Compute processes, one per core, shared by all guests of a command."""

    def __init__(self, processes: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(processes)]
        self._sockets = [ours for ours, _ in pairs]
        self._pids: dict[socket.socket, int] = {}
        theirs = [theirs.fileno() for _, theirs in pairs]
        self._leader = subprocess.Popen(
            [sys.executable, "-m", "testbed.compute.process", *map(str, theirs)],
            pass_fds=theirs,
            env={**os.environ, **SETTINGS, "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL,
            process_group=0,  # ^C is for the command, which ends these by closing their sockets
        )
        for _, end in pairs:
            end.close()

    def __enter__(self) -> ComputeService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for ours in self._sockets:
            ours.close()  # a process ends when its parent's end is gone
        try:
            self._leader.wait(5)
        except subprocess.TimeoutExpired:
            for pid in {self._leader.pid, *self._pids.values()}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._leader.wait()

    @property
    def sockets(self) -> list[socket.socket]:
        """To select on; when one is readable, call `hear` with it."""
        return self._sockets

    def introduce(self, guest: str, run: RunSpec, memory: Path, slots: int, dimension: int) -> Introduction:
        """Lay out shared memory at `memory` for a new guest and tell every process about it."""
        with memory.open("w+b") as file:
            file.truncate(slots * stride(dimension))
            ring_read, ring_write = os.pipe()
            answer_read, answer_write = os.pipe()
            order = {
                "guest": guest, "workload": to_plain(run.workload), "workers": len(run.network.workers),
                "seed": run.seed, "slots": slots, "dimension": dimension,
            }  # fmt: skip
            packet = json.dumps(order).encode()
            try:
                for ours in self._sockets:
                    socket.send_fds(ours, [packet], [file.fileno(), ring_read, answer_write])
            except (BrokenPipeError, ConnectionResetError) as error:
                os.close(ring_write)
                os.close(answer_read)
                raise ServiceDied(self._obituary(ours)) from error
            finally:
                # Only the processes keep these, so that a death on either side is seen on the other.
                os.close(ring_read)
                os.close(answer_write)
        return Introduction(memory, ring_write, answer_read)

    def hear(self, ours: socket.socket) -> dict[str, Any]:
        """The next thing a process said: its `pid`, or an evaluation, `finished` or `failed` for a guest.

        ServiceDied when there is nothing to hear any more.
        """
        try:
            raw = ours.recv(65536)
        except ConnectionResetError:
            raw = b""
        if not raw:
            raise ServiceDied(self._obituary(ours))
        said: dict[str, Any] = json.loads(raw)
        if "pid" in said:
            self._pids[ours] = said["pid"]
        return said

    def _obituary(self, ours: socket.socket) -> str:
        pid = self._pids.get(ours, self._leader.pid)
        if pid != self._leader.pid:
            return f"compute process {pid} ended"
        try:
            code = self._leader.wait(1)
        except subprocess.TimeoutExpired:
            return f"compute process {pid} closed its socket"
        return f"compute process {pid} ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
