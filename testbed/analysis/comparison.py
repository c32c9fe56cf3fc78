"""The comparison as a table, in colour or as plain text."""

from __future__ import annotations

from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis.answer import NOTHING, accuracy_notes, percent, seconds, time_notes
from testbed.analysis.summary import AlgorithmSummary, Summary


def table(summary: Summary) -> Table:
    """The comparison, fastest first; lost and degraded runs stand below it.

    Every row has a second line with what qualifies the first, so that it fits a narrow terminal.
    """
    whole = Table(
        title=Text(f"{summary.experiment}: time to {percent(summary.target)} test accuracy"),
        caption=Text("\n".join(_notes(summary))),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        leading=1,
    )
    whole.add_column(Text("algorithm"), overflow="fold")
    against = f"vs {summary.baseline}" if summary.baseline else "speed-up"
    headings = [f"time to {percent(summary.target)}", against, "MB to\ntarget", "rounds\nsamples"]
    for heading in [*headings, "accuracy\nat the end", "compute/\ntransfer/\nwait"]:
        whole.add_column(Text(heading), justify="right", no_wrap=True)
    for one in summary.algorithms:
        whole.add_row(*_row(one, summary.horizon))
    return whole


def _row(one: AlgorithmSummary, horizon: float) -> list[Text]:
    """One algorithm's cells, in the order of the headings."""
    accuracy, shares = one.accuracy, one.shares
    end = [NOTHING] if accuracy is None else [percent(accuracy.middle, 1), *accuracy_notes(accuracy, one.seeds)]
    return [
        _cell(Text(one.algorithm, style="bold"), f"{one.seeds} seed{'s' if one.seeds != 1 else ''}"),
        _cell(Text(seconds(one.time.middle, horizon), style="bold"), *time_notes(one, horizon)),
        _cell(Text(_speedup(one))),
        _cell(Text(_megabytes(one.payload_to_target)), f"of {_megabytes(one.payload)}"),
        _cell(Text(_count(one.rounds)), _count(one.samples)),
        _cell(Text(end[0]), *end[1:]),
        _cell(Text(NOTHING if shares is None else "/".join(f"{100 * s:.0f}" for s in shares.values()) + " %")),
    ]


def _cell(first: Text, *more: str) -> Text:
    """A cell whose further lines step back."""
    for line in more:
        first = Text.assemble(first, ("\n" + line, "not bold dim"))
    return first


def _speedup(one: AlgorithmSummary) -> str:
    if one.speedup is None:
        return NOTHING
    return f"{one.speedup.bound} {one.speedup.factor:.2f}x".strip()


def _megabytes(size: float | None) -> str:
    return NOTHING if size is None else f"{size / 1e6:,.1f}"


def _count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _notes(summary: Summary) -> list[str]:
    """What the table needs to be read rightly."""
    notes = [
        f"Time: first evaluated model at the target, median and range over seeds; one is evaluated every "
        f"{summary.resolution:g} s or every round, whichever is longer. The rest: means over seeds.",
        "MB: all messages that arrived until the target, and in the whole run.",
        "Rounds and samples: of the whole run, as far as its models were evaluated.",
        "Workers' time: computing; else a message of theirs under way; else waiting for others.",
    ]
    if summary.truth:
        notes.append(f"Simulated times. {summary.truth}.")
    notes += [f"Not counted: {run}" for run in summary.lost]
    notes += [f"Degraded: {run}" for run in summary.degraded]
    return notes


def plain_table(summary: Summary, width: int = 100) -> str:
    """The table as text without colours, for files and pipes; `width` in characters."""
    stream = StringIO()
    Console(file=stream, width=width, color_system=None, force_terminal=False).print(table(summary))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
