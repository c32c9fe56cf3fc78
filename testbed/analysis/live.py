"""What running runs look like from outside: a live table, or plain lines where there is no terminal.

Light on purpose: it is imported before anything starts, so neither pandas nor torch may come with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from testbed.record.progress import Progress

COLOURS = {"done": "green", "failed": "bold red", "training": "cyan", "evaluating": "cyan"}
WORTH = {"failed": 1, "done": 2}
"""Which states give up their row first, the highest number first."""
PLAIN_EVERY = 5.0
"""seconds of this machine between two plain lines of a run whose state does not change."""
REASONS = 3
"""newest failures whose reason is shown below the table."""
FRAME = 6 + REASONS
"""lines of the terminal that are not rows: the table's frame and caption, and the prompt."""


def virtual_time(progress: Progress, horizon: float) -> str:
    """For example "23.4 s (20 %)": virtual seconds, and their share of the horizon."""
    return f"{progress.time:.1f} s ({100 * progress.time / horizon:.0f} %)" if horizon > 0 else "-"


def accuracy(progress: Progress) -> str:
    return "-" if progress.accuracy is None else f"{100 * progress.accuracy:.1f} %"


def speed(progress: Progress) -> str:
    """Emulated seconds per machine second; "-" before either has passed."""
    if progress.machine_seconds <= 0 or progress.time <= 0:
        return "-"
    return f"{progress.time / progress.machine_seconds:.1f}x"


def plain_line(progress: Progress, horizon: float) -> str:
    """One run at one moment, on one line."""
    facts = [
        f"{progress.label} seed {progress.seed}: {progress.state}",
        virtual_time(progress, horizon),
        f"accuracy {accuracy(progress)}",
        f"{progress.sent_bytes / 1e6:.1f} MB",
        f"{progress.machine_seconds:.1f} s of machine",
        speed(progress),
    ]
    return ", ".join(facts) + (f" - {_on_one_line(progress.detail)}" if progress.detail else "")


def _on_one_line(detail: str) -> str:
    """A reason may have many lines; there is room for one."""
    return " ".join(detail.split())


class LiveView:
    """Shows runs from the `Progress` that `update` is given, from any thread.

    `horizon` is in virtual seconds; `total` is how many runs there will be, if known. On a terminal
    there is one table, redrawn a few times a second; elsewhere one line per change of state, and one
    every five machine seconds per run in between.
    """

    def __init__(
        self,
        horizon: float,
        total: int | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._horizon = horizon
        self._total = total
        self._console = console or Console()
        self._clock = clock
        self._lock = Lock()
        self._newest: dict[tuple[str, int], Progress] = {}
        self._printed: dict[tuple[str, int], float] = {}
        self._live: Live | None = None

    def __enter__(self) -> LiveView:
        if self._console.is_terminal:
            self._live = Live(get_renderable=self.render, console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()  # draws the last state once more
            self._live = None

    def update(self, progress: Progress) -> None:
        """Take the newest word of a run."""
        with self._lock:
            run = (progress.label, progress.seed)
            before = self._newest.get(run)
            self._newest[run] = progress
            if self._console.is_terminal:
                return  # the table is drawn on its own beat
            now = self._clock()
            changed = before is None or before.state != progress.state
            if changed or now - self._printed[run] >= PLAIN_EVERY:
                self._printed[run] = now
                line = plain_line(progress, self._horizon)
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def render(self) -> Table:
        """The table of this moment. Where the terminal is too low, runs that ended go first."""
        with self._lock:
            newest = list(self._newest.values())
        shown = visible(newest, max(1, self._console.size.height - FRAME))
        whole = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), caption_justify="left")
        whole.caption = Text("\n".join(self._captions(newest, len(shown))), overflow="ellipsis", no_wrap=True)
        whole.add_column("algorithm", style="bold")
        whole.add_column("seed", justify="right")
        whole.add_column("state", min_width=10)
        for heading in ("virtual time", "accuracy", "MB sent", "machine", "speed"):
            whole.add_column(heading, justify="right", no_wrap=True)
        for one in shown:
            state = Text(one.state, style=COLOURS.get(one.state, "yellow"), no_wrap=True, overflow="ellipsis")
            if one.detail and one.state != "failed":
                state.append(f" {_on_one_line(one.detail)}", style="dim")
            whole.add_row(
                Text(one.label),
                str(one.seed),
                state,
                virtual_time(one, self._horizon),
                accuracy(one),
                f"{one.sent_bytes / 1e6:.1f}",
                f"{one.machine_seconds:.1f} s",
                speed(one),
            )
        return whole

    def _captions(self, newest: list[Progress], shown: int) -> list[str]:
        """For example "5 of 12 runs done, 1 failed, 3 not shown", then the newest failures' reasons."""
        ended = {state: sum(one.state == state for one in newest) for state in WORTH}
        of = "" if self._total is None else f" of {self._total}"
        words = f"{ended['done']}{of} runs done"
        words += f", {ended['failed']} failed" if ended["failed"] else ""
        words += f", {len(newest) - shown} not shown" if shown < len(newest) else ""
        failed = [one for one in newest if one.state == "failed"][-REASONS:]
        return [words, *(f"{one.label} seed {one.seed}: {_on_one_line(one.detail)}" for one in failed)]


def visible(newest: list[Progress], rows: int) -> list[Progress]:
    """The `rows` runs worth showing, in the order they came: going ones before failed, failed before done."""
    order = sorted(range(len(newest)), key=lambda i: WORTH.get(newest[i].state, 0))
    return [newest[i] for i in sorted(order[:rows])]
