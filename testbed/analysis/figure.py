"""The figure of a comparison: accuracy over time and over what was sent.

Drawn with matplotlib's objects and never through pyplot, so nothing is left behind in a notebook. The
same results give the same bytes: no date and no version goes into the files.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from testbed.analysis.answer import answer, percent, seconds
from testbed.analysis.caption import subtitle, warnings
from testbed.analysis.curves import EXACT, accuracy_steps, mean_curve, with_payload
from testbed.analysis.summary import AlgorithmSummary, Summary, summarise
from testbed.record.results import Results

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, told apart with every kind of colour vision; without its yellow, which is
too pale for a line on white."""
DASHES = ("-", "--", "-.", ":")
"""What tells lines apart once the colours are used up."""
INK, GREY, ALARM = "#222222", "#666666", "#B22222"
SIZE = (10.0, 5.2)
"""inches."""
LOG_FROM = 8.0
"""Ratio between the most and the least bytes sent from which the axis is logarithmic."""


@dataclass(frozen=True)
class Style:
    """How one algorithm is drawn, in every panel."""

    colour: str
    dash: str


def draw(results: Results, folder: Path, baseline: str | None = None) -> list[Path]:
    """Write `time_to_accuracy.png` and `.pdf` into `folder`, which is made if need be; returns both.

    ValueError as in `summarise`, and when no run is done: there is nothing to draw.
    """
    figure = time_to_accuracy(results, baseline)
    folder.mkdir(parents=True, exist_ok=True)
    png, pdf = folder / "time_to_accuracy.png", folder / "time_to_accuracy.pdf"
    figure.savefig(png, dpi=200, metadata={"Software": None})
    # Type 42 fonts keep the text selectable, and most venues ask for them.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return [png, pdf]


def time_to_accuracy(results: Results, baseline: str | None = None) -> Figure:
    """The figure itself, for a notebook: left accuracy over time, right over megabytes sent."""
    summary = summarise(results, baseline)
    steps = accuracy_steps(results.metrics, summary.horizon)
    if steps.empty:
        raise ValueError(f"{results.experiment} has no evaluated snapshot to draw")
    steps = with_payload(steps, results.messages)
    figure = Figure(figsize=SIZE, facecolor="white")
    FigureCanvasAgg(figure)
    styles = _styles(results.algorithms)
    bottom, height = _texts(figure, results, summary)
    if results.messages.empty:
        _over_time(figure.add_axes((0.075, bottom, 0.77, height)), steps, summary, styles, results)
    else:
        left = figure.add_axes((0.075, bottom, 0.4, height))
        right = figure.add_axes((0.645, bottom, 0.335, height), sharey=left)
        _over_time(left, steps, summary, styles, results)
        _over_bytes(right, steps, summary, styles)
    return figure


def _styles(labels: list[str]) -> dict[str, Style]:
    """A style per label that does not depend on who wins."""
    count = len(COLOURS)
    return {label: Style(COLOURS[i % count], DASHES[i // count % len(DASHES)]) for i, label in enumerate(labels)}


def _curve(axes: Axes, curve: pd.DataFrame, over: str, style: Style) -> None:
    """Mean line and min-max band of one algorithm, as the steps that they are."""
    at = curve[over].to_numpy(dtype=float)
    low, high = curve["low"].to_numpy(dtype=float), curve["high"].to_numpy(dtype=float)
    mean = curve["mean"].to_numpy(dtype=float)
    axes.fill_between(at, low, high, step="post", color=style.colour, alpha=0.18, linewidth=0)
    axes.step(at, mean, where="post", color=style.colour, linestyle=style.dash, linewidth=1.5)


def _over_time(axes: Axes, steps: pd.DataFrame, summary: Summary, styles: dict[str, Style], results: Results) -> None:
    """Left panel: accuracy over time, the target, when it was reached, and every line's name."""
    horizon = summary.horizon
    ends = {}
    for label, runs in steps.groupby("algorithm", sort=False):
        grid = np.unique(np.append(runs["time"].to_numpy(dtype=float), horizon))
        curve = mean_curve(runs, grid)
        _curve(axes, curve, "time", styles[str(label)])
        if len(curve):
            ends[str(label)] = float(curve["mean"].iloc[-1])
    _frame(axes, summary)
    axes.set_xlim(0, horizon)
    live = any(run.engine == "live" for run in results.specs.values())
    axes.set_xlabel("wall-clock time (s)" if live else "virtual time (s)")
    axes.set_ylabel("test accuracy")
    goal = f"target {percent(summary.target)}"
    # The line's left end is free: no curve starts at the target.
    axes.annotate(goal, (0, summary.target), (4, 3), textcoords="offset points", fontsize=8, color=INK)
    _heading(axes, "over time" + (": mean and range over seeds" if _seeds(summary) > 1 else ""))
    for one in summary.algorithms:
        _marker(axes, one, summary.target, styles[one.algorithm])
    _names(axes, ends, summary, styles)


def _over_bytes(axes: Axes, steps: pd.DataFrame, summary: Summary, styles: dict[str, Style]) -> None:
    """Right panel: accuracy over what all nodes had sent. A line ends where its first seed ends."""
    furthest = []
    for label, runs in steps.assign(sent=steps["sent"] / 1e6).groupby("algorithm", sort=False):
        last = float(runs.groupby("seed")["sent"].max().min())
        curve = mean_curve(runs, np.unique(runs["sent"].to_numpy(dtype=float)), over="sent")
        curve = curve[(curve["sent"] <= last) & (curve["sent"] > 0)]
        if curve.empty:
            continue
        style = styles[str(label)]
        _curve(axes, curve, "sent", style)
        axes.plot(last, float(curve["mean"].iloc[-1]), "o", color=style.colour, markersize=4)
        furthest.append(last)
    _frame(axes, summary)
    if furthest and max(furthest) > LOG_FROM * min(furthest):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel("messages of all nodes (MB)")
    _heading(axes, "over what was sent, in the same colours")


def _seeds(summary: Summary) -> int:
    return max(one.seeds for one in summary.algorithms)


def _heading(axes: Axes, words: str) -> None:
    axes.set_title(words, loc="left", fontsize=9.5, color=INK, pad=8)


def _frame(axes: Axes, summary: Summary) -> None:
    """Axes, grid and the target line, alike in both panels."""
    axes.axhline(summary.target, color=INK, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1.5)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    axes.tick_params(colors=GREY, labelsize=8.5, labelcolor=INK)
    axes.xaxis.label.set_fontsize(9.5)
    axes.yaxis.label.set_fontsize(9.5)


def _marker(axes: Axes, one: AlgorithmSummary, target: float, style: Style) -> None:
    """A ring on the target line at the median time, with whiskers to the fastest and slowest seed."""
    if np.isinf(one.time.middle):
        return
    colour, middle, limit = style.colour, one.time.middle, axes.get_xlim()[1]
    reach = [one.time.low, min(one.time.high, limit)]
    axes.plot(reach, [target, target], color=colour, linewidth=3, solid_capstyle="butt", zorder=3)
    ring: dict[str, Any] = {
        "markersize": 7,
        "markerfacecolor": "white",
        "markeredgecolor": colour,
        "markeredgewidth": 1.8,
    }
    axes.plot(middle, target, "o", zorder=4, **ring)
    bottom = axes.get_ylim()[0]
    axes.vlines(middle, bottom, target, color=colour, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1.4)
    axes.set_ylim(bottom=bottom)


def _names(axes: Axes, ends: dict[str, float], summary: Summary, styles: dict[str, Style]) -> None:
    """Every line's name and time beside its end, pushed apart where lines end close together."""
    low, high = axes.get_ylim()
    lines = {one.algorithm: seconds(one.time.middle, summary.horizon) for one in summary.algorithms}
    heights = spaced({label: (end - low) / (high - low) for label, end in ends.items()}, 0.115)
    for label, height in heights.items():
        end, when = (ends[label] - low) / (high - low), f"{percent(summary.target)}: {lines[label]}"
        place: dict[str, Any] = {"transform": axes.transAxes, "color": styles[label].colour, "clip_on": False}
        axes.plot([1.005, 1.03], [end, height], linewidth=0.8, **place)
        axes.text(1.04, height + 0.004, label, va="bottom", fontsize=9.5, fontweight="bold", **place)
        axes.text(1.04, height - 0.004, when, va="top", fontsize=8, **place)
    axes.set_ylim(low, high)


def spaced(wanted: dict[str, float], gap: float) -> dict[str, float]:
    """Heights within 0 to 1, at least `gap` apart, in the order of the wanted ones and close to them.

    Labels that would collide form a block, which is centred on the mean of what its members want.
    """
    blocks: list[list[str]] = []
    gap = min(gap, 1 / max(1, len(wanted) - 1))

    def centre(block: list[str]) -> float:
        half = gap * (len(block) - 1) / 2
        return min(max(sum(wanted[label] for label in block) / len(block), half), 1 - half)

    for label in sorted(wanted, key=lambda name: (wanted[name], name)):
        blocks.append([label])
        while len(blocks) > 1:
            below, above = blocks[-2:]
            if centre(above) - centre(below) >= gap * (len(below) + len(above)) / 2 - EXACT:
                break
            blocks[-2:] = [below + above]
    return {
        label: centre(block) + gap * (place - (len(block) - 1) / 2)
        for block in blocks
        for place, label in enumerate(block)
    }


def _texts(figure: Figure, results: Results, summary: Summary) -> tuple[float, float]:
    """The answer as the title, what was run below it, what went wrong at the foot.

    Returns the bottom and the height that are left for the panels, in fractions of the figure.
    """
    # The foot names the lost runs; the title need not count them too.
    title = "\n".join(textwrap.wrap(answer(replace(summary, lost=())), 108))
    figure.text(0.015, 0.97, title, fontsize=11.5, fontweight="bold", color=INK, va="top")
    below = 0.96 - 0.048 * (1 + title.count("\n"))
    said = "\n".join(subtitle(results))
    figure.text(0.015, below, said, fontsize=8.5, color=GREY, va="top", linespacing=1.35)
    wrong = warnings(results)
    figure.text(0.015, 0.015, "\n".join(wrong), fontsize=8.5, color=ALARM, va="bottom")
    bottom = 0.115 + 0.032 * len(wrong)
    return bottom, below - 0.091 - 0.032 * (1 + said.count("\n")) - bottom
