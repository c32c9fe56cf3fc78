"""`python -m testbed.engines.virtual.kernel`: builds the kernel if need be, and shows how far it is."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from testbed.engines.virtual.kernel.build import EXPECTED_OBJECTS, find_kernel, kernel
from testbed.engines.virtual.kernel.recipe import KernelError

STEP = "kernel"


class Lines:
    """Progress for a log: a line for each stage and about every tenth of the objects."""

    def __init__(self) -> None:
        self._said: tuple[str, int] | None = None

    def __call__(self, stage: str, done: int, expected: int) -> None:
        now = (stage, done * 10 // expected)
        if now != self._said:
            self._said = now
            amount = f" {now[1] * 10}%" if stage == "compiling" else ""
            print(f"{STEP:<12} {stage}{amount}", flush=True)


class Bar:
    """Progress for a terminal."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID = bars.add_task(STEP, total=EXPECTED_OBJECTS, stage="")

    def __call__(self, stage: str, done: int, expected: int) -> None:
        self._bars.update(self._task, completed=done, total=expected, stage=stage)


def _build_with_progress() -> Path:
    if not sys.stdout.isatty():
        return kernel(Lines())
    columns = (
        TextColumn(f"{STEP:<12} {{task.fields[stage]}}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} objects"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=True) as bars:
        return kernel(Bar(bars))


def main() -> int:
    """0 when the kernel is ready, 1 when not; what to do is then on standard error."""
    began = time.monotonic()
    try:
        ready = find_kernel()
        path = ready or _build_with_progress()
    except KernelError as problem:
        print(f"{STEP:<12} failed: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{STEP:<12} interrupted; the next `make setup` builds it anew", file=sys.stderr)
        return 130
    state = "up to date" if ready else "built"
    print(f"{STEP:<12} {state:<12} {time.monotonic() - began:8.1f} s  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
