"""Carrying out what is not done yet, with finished runs kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

if TYPE_CHECKING:
    from testbed.record.folder import RunFolder
    from testbed.record.progress import Progress
    from testbed.spec.run import RunSpec

out, err = Console(), Console(stderr=True)


class Refused(Exception):
    """The input is wrong; the message says what and how to mend it."""


def watched(
    work: Sequence[tuple[RunSpec, RunFolder]],
    kernel: Path | None,
    at_once: int | None,
    limit: float,
    keep_going: bool = False,
) -> int:
    """Run everything under the reader's eyes; how many runs failed."""
    from testbed.analysis.live import LiveView

    if not work:
        return 0
    longest = max(run.horizon.time for run, _ in work)
    with LiveView(longest, len(work), out) as view:
        try:
            return _carry_out(work, kernel, view.update, at_once, limit, keep_going)
        except KeyboardInterrupt:
            err.print("interrupted; finished runs are kept, the same command goes on from here")
            raise typer.Exit(130) from None


def _carry_out(
    work: Sequence[tuple[RunSpec, RunFolder]],
    kernel: Path | None,
    show: Callable[[Progress], None],
    at_once: int | None,
    limit: float,
    keep_going: bool,
) -> int:
    """Run everything, without a kernel on the engine that needs none; how many runs failed."""
    if kernel is None:
        from testbed.engines.sim.engine import SimEngine

        return SimEngine(show, at_once=at_once, limit=limit).run(work)
    from testbed.engines.virtual.engine import Limits, VirtualEngine

    return VirtualEngine(kernel, show, at_once=at_once, limits=Limits(whole=limit), keep_going=keep_going).run(work)


def unfinished(runs: Sequence[RunSpec], results: Path, again: bool = False) -> list[tuple[RunSpec, RunFolder]]:
    """The runs that are still to do; with `again` those too that code which has changed since has made.

    Refused when other runs lie where these belong.
    """
    from testbed.record.folder import RunFolder

    places = [(run, RunFolder.of(results, run)) for run in runs]
    other = [folder.path for run, folder in places if folder.done and not folder.same_spec(run)]
    if other:
        raise Refused(
            f"{other[0]} holds a finished run of another experiment file ({len(other)} in all); "
            "give this experiment another name, or another --results folder, or remove the old results"
        )
    unfinished = []
    for run, folder in places:
        changed = folder.changed_since(run) if folder.done else ""
        if not folder.done or (changed and again):
            unfinished.append((run, folder))
        elif changed:
            text = f"{folder.path}: {changed} has changed since this run; remove the folder to run it again"
            err.print(text, markup=False, highlight=False)
    return unfinished
