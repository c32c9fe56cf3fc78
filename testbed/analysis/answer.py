"""The comparison in words: the sentence that answers the experiment's question, and its pieces."""

from __future__ import annotations

import math

from testbed.analysis.summary import AlgorithmSummary, Speedup, Spread, Summary, compare

NOTHING = "-"


def percent(share: float, digits: int | None = None) -> str:
    """A share of 1 in per cent: 0.8 -> "80 %", with `digits` decimals if given."""
    return f"{share * 100:.6g} %" if digits is None else f"{share * 100:.{digits}f} %"


def seconds(time: float, horizon: float) -> str:
    """Seconds with one decimal below 1000; an infinite time is "> horizon"."""
    if math.isinf(time):
        return f"> {horizon:g} s"
    return f"{time:.0f} s" if time >= 1000 else f"{time:.1f} s"


def time_in_words(one: AlgorithmSummary, horizon: float) -> str:
    """Median and range: "23.4 s (22.9 to 24.1)", "> 120 s", "40.2 s (22.9 to > 120; 2 of 3 seeds)"."""
    notes = time_notes(one, horizon)
    return seconds(one.time.middle, horizon) + (f" ({'; '.join(notes)})" if notes else "")


def time_notes(one: AlgorithmSummary, horizon: float) -> list[str]:
    """The range, where it says more than the median, and how many seeds arrived, where not all did."""
    notes = []
    if one.seeds > 1 and one.reached:
        low, high = (seconds(end, horizon).removesuffix(" s") for end in (one.time.low, one.time.high))
        notes.append(f"{low} to {high}")
    if 0 < one.reached < one.seeds:
        notes.append(f"{one.reached} of {one.seeds} seeds")
    return notes


def accuracy_in_words(accuracy: Spread | None, seeds: int) -> str:
    """Mean and range: "81.2 % (80.9 to 81.6)", without the range for a single seed."""
    if accuracy is None:
        return NOTHING
    notes = accuracy_notes(accuracy, seeds)
    return percent(accuracy.middle, 1) + (f" ({notes[0]})" if notes else "")


def accuracy_notes(accuracy: Spread, seeds: int) -> list[str]:
    return [f"{accuracy.low * 100:.1f} to {accuracy.high * 100:.1f}"] if seeds > 1 else []


def answer(summary: Summary) -> str:
    """One sentence: which algorithm reaches the target first, when, by how much, and how sure that is."""
    lost = f"; {len(summary.lost)} of {summary.runs} runs failed or are missing" if summary.lost else ""
    if not summary.algorithms:
        return f"No run of {summary.experiment} is done{lost}."
    first = summary.algorithms[0]
    if math.isinf(first.time.middle):
        return _nobody(summary) + lost + "."
    goal, when = percent(summary.target), time_in_words(first, summary.horizon)
    if len(summary.algorithms) == 1:
        return f"{first.algorithm} reaches {goal} in {when}{_certainty(summary)}{lost}."
    equal = [one.algorithm for one in summary.algorithms if one.time.middle == first.time.middle]
    if len(equal) > 1:
        return f"{_listed(equal)} reach {goal} first, at the same time: {when}{_certainty(summary)}{lost}."
    return f"{first.algorithm} reaches {goal} first: {when}, {_lead(summary)}{_certainty(summary)}{lost}."


def _nobody(summary: Summary) -> str:
    """No median lies within the horizon."""
    goal, limit = percent(summary.target), f"{summary.horizon:g} s"
    some = [one for one in summary.algorithms if one.reached]
    if some:
        counts = _listed([f"{one.algorithm} in {one.reached} of {one.seeds} seeds" for one in some])
        return f"No algorithm reaches {goal} within {limit} in most seeds, only {counts}"
    shown = [one for one in summary.algorithms if one.accuracy is not None]
    if not shown:
        return f"No algorithm shows a single model within {limit}"
    if len(summary.algorithms) == 1:
        final = accuracy_in_words(shown[0].accuracy, shown[0].seeds)
        return f"{shown[0].algorithm} does not reach {goal} within {limit}; it ends at {final}"
    best = max(shown, key=lambda one: one.accuracy.middle if one.accuracy else 0.0)
    final = accuracy_in_words(best.accuracy, best.seeds)
    return f"No algorithm reaches {goal} within {limit}; {best.algorithm} comes closest with {final}"


def _lead(summary: Summary) -> str:
    """How far the first is ahead of the second, and of the baseline where that is another one."""
    first, second = summary.algorithms[:2]
    named = [second] + [
        one for one in summary.algorithms[2:] if one.algorithm == summary.baseline and one.speedup is not None
    ]
    gaps = []
    for one in named:
        gap = compare(first.time.middle, one.time.middle, summary.horizon)
        gaps.append(f"{_factor(gap)} faster than {one.algorithm}")
    sentence = " and ".join(gaps)
    if math.isinf(named[-1].time.middle):
        sentence += f" (not there within {summary.horizon:g} s)"
    return sentence


def _factor(gap: Speedup | None) -> str:
    """How many times: "2.31x", "more than 5.13x". The first always has a time, hence a gap."""
    assert gap is not None
    return f"more than {gap.factor:.2f}x" if gap.bound == ">" else f"{gap.factor:.2f}x"


def _certainty(summary: Summary) -> str:
    """What the reader should doubt: one seed, overlapping ranges, differences below the resolution."""
    doubts = []
    first = summary.algorithms[0]
    if first.seeds == 1:
        doubts.append("one seed, so the spread is unknown")
    behind = [one for one in summary.algorithms if one.time.middle > first.time.middle]
    rivals = [one for one in behind if one.time.low <= first.time.high and one.reached]
    if rivals and any(one.seeds > 1 for one in (first, *rivals)):
        who = _listed([one.algorithm for one in rivals])
        doubts.append(f"the ranges over seeds overlap with {who}, so the order is not certain")
    elif behind and behind[0].time.low - first.time.high < summary.resolution:
        doubts.append(f"the gap is below the {summary.resolution:g} s between evaluations")
    return "; " + "; ".join(doubts) if doubts else ""


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
