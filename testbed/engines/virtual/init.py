"""The guest's first process: builds the network, measures it, runs the participants, powers off.

Started by the guest's kernel as `python -m testbed.engines.virtual.init TASK ORDER`. What it prints is lines
of JSON on the console, which is how the host follows it. Nothing here may read the host's clock except
for the profile.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

UPTIME = 11.0
"""seconds; before 10 s of uptime some programs misbehave, and virtual seconds are free."""


def say(state: str, **more: object) -> None:
    """One line to the host. The mark tells it from whatever else is printed in the guest."""
    print(MARK + json.dumps({"state": state, **more}), flush=True)


MARK = "guest: "
FAILED = "guest-failed"
RESULTS = Path("/run/results")
"""The run's folder as the guest sees it, wherever on the host it lies."""


def _mount(kind: str, target: str, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs(target, exist_ok=True)
    if libc.mount(kind.encode(), target.encode(), kind.encode(), 0, options.encode() or None):
        number = ctypes.get_errno()
        if number != 16:  # EBUSY: the kernel has mounted it already
            raise OSError(number, f"mounting {kind} on {target}: {os.strerror(number)}")


def settle(results: str) -> None:
    """Make the bare guest a system: file systems, exact timers, an uptime that programs trust."""
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run")):
        _mount(kind, target)
    _mount("devpts", "/dev/pts")
    _mount("tmpfs", "/dev/shm")
    _mount("hostfs", str(RESULTS), results)
    # Timers of ordinary processes are 50 microseconds late, those of real-time processes are exact.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    time.sleep(max(0.0, UPTIME - time.monotonic()))


def power_off() -> NoReturn:
    """End the guest at once; ending big processes one by one would take seconds."""
    sys.stdout.flush()
    Path("/proc/sysrq-trigger").write_text("o")
    while True:
        time.sleep(1)


def _run(order: dict[str, Any]) -> None:
    from testbed.engines.virtual.session import carry_out  # imported here: by now timers are exact

    carry_out(order, RESULTS, say)


def _prompt(order: dict[str, Any]) -> None:
    from testbed.engines.mininet.prompt import serve_prompt

    serve_prompt(order["plan"])


def _script(order: dict[str, Any]) -> None:
    """Any Python file, for tests and measurements."""
    sys.argv[:] = [order["script"], *order["arguments"]]
    runpy.run_path(order["script"], run_name="__main__")


TASKS = {"run": _run, "prompt": _prompt, "script": _script}


def main(task: str, path: str) -> NoReturn:
    """Carry out the order in the file at `path`, tell how it went, and power off."""
    try:
        # The order is read first: what is mounted next may hide it.
        order: dict[str, Any] = json.loads(Path(path).read_text())
        settle(order["results"])
        TASKS[task](order)
    except BaseException as error:  # the last word of this guest: it must be said
        if task == "prompt":  # nobody listens to the console then
            (RESULTS / FAILED).write_text(f"{type(error).__name__}: {error}\n")
        say("failed", reason=f"{type(error).__name__}: {error}", trace=traceback.format_exc()[-3000:])
    power_off()


if __name__ == "__main__":
    main(*sys.argv[1:3])  # the kernel appends words of its own
