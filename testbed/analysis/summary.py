"""The comparison in numbers: one row per algorithm, over its seeds.

A run that never reaches the target is censored at the horizon: it took longer than that, and nothing
here pretends to know how long. In medians it counts as infinitely long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from testbed.analysis.curves import RUN, accuracy_steps, sent_until, time_to_target
from testbed.analysis.phases import phase_shares
from testbed.analysis.simulated import truth_in_words
from testbed.record.results import Results


@dataclass(frozen=True)
class Spread:
    """A middle and the range over seeds. Times that were never reached are infinite."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Speedup:
    """How many times faster than the baseline."""

    factor: float
    bound: str = ""
    """">" when the baseline never arrived (the factor is at least this), "<" when the algorithm did not."""


@dataclass(frozen=True)
class AlgorithmSummary:
    """One algorithm over its finished runs. None stands for what was not recorded or never happened."""

    algorithm: str
    seeds: int
    """finished runs."""
    reached: int
    """finished runs that reached the target."""
    time: Spread
    """seconds to the target: median and range."""
    speedup: Speedup | None
    """None where neither the algorithm nor the baseline arrived."""
    payload: float | None
    """bytes of all messages that arrived in the whole run, mean over seeds."""
    payload_to_target: float | None
    """bytes sent until the target, mean over the seeds that reached it."""
    rounds: float | None
    """highest version among the evaluated snapshots, mean over seeds: what the algorithm counts."""
    samples: float | None
    """highest number of samples processed among the evaluated snapshots, mean over seeds."""
    accuracy: Spread | None
    """accuracy at the horizon: mean and range."""
    shares: dict[str, float] | None
    """mean shares of the workers' time (`testbed.analysis.phases`), summing to 1."""


@dataclass(frozen=True)
class Summary:
    """An experiment's answer in numbers."""

    experiment: str
    target: float
    """accuracy in 0 to 1."""
    horizon: float
    """seconds."""
    resolution: float
    """seconds between evaluated snapshots: times to target are known no better."""
    baseline: str
    """the algorithm that speed-ups refer to; empty when no run is done."""
    algorithms: tuple[AlgorithmSummary, ...]
    """fastest first; among those that never arrive, the most accurate first."""
    lost: tuple[str, ...]
    """runs that are not in the numbers: "fedavg seed 2: failed: ...", one each."""
    degraded: tuple[str, ...]
    """runs that are, though something was wrong with them."""
    runs: int
    """runs of the experiment, lost ones included."""
    truth: str = ""
    """what is known of the error of simulated times; empty where none is simulated."""


def summarise(results: Results, baseline: str | None = None, target: float | None = None) -> Summary:
    """Compare the finished runs of `results`.

    Speed-ups refer to `baseline`, or to the slowest algorithm. `target` replaces the experiment's own.
    ValueError when the runs have no spec or ask for different things, or the baseline has no finished run.
    """
    wanted, horizon, resolution = _asked(results)
    target = wanted if target is None else target
    steps = accuracy_steps(results.metrics, horizon)
    times = run_times(results, steps, target, horizon)
    labels = list(dict.fromkeys(times["algorithm"]))
    ranked = sorted((_measured(results, label, steps, times, horizon) for label in labels), key=_rank)
    named = _baseline(ranked, baseline)
    return Summary(
        experiment=results.experiment,
        target=target,
        horizon=horizon,
        resolution=resolution,
        baseline="" if named is None else named.algorithm,
        algorithms=tuple(_against(one, named, horizon) for one in ranked),
        lost=tuple(_said(results.lost, "state", "reason")),
        degraded=tuple(_said(results.done[results.done["degraded"] != ""], "degraded")),
        runs=len(results.runs),
        truth=truth_in_words(results),
    )


def _said(runs: pd.DataFrame, *columns: str) -> list[str]:
    """For every run a line like "fedavg seed 2: failed: out of memory"."""
    rows = runs[[*RUN, *columns]].to_dict("records")
    return [f"{row['algorithm']} seed {row['seed']}: " + ": ".join(row[c] for c in columns) for row in rows]


def spread(values: Sequence[float], middle: str = "median") -> Spread:
    """Median or mean, and range. The median of an even number is the mean of the two in the middle,
    and infinite where one of them is.
    """
    ordered = sorted(values)
    half, odd = divmod(len(ordered), 2)
    if middle == "mean":
        centre = math.fsum(ordered) / len(ordered)
    else:
        centre = ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2
    return Spread(centre, ordered[0], ordered[-1])


def _asked(results: Results) -> tuple[float, float, float]:
    """Target, horizon and seconds between evaluations that all runs agree on."""
    horizons = {(h.target, h.time, h.evaluate_every) for h in (s.horizon for s in results.specs.values())}
    if len(horizons) != 1:
        problem = "no run has a spec.yaml" if not horizons else f"its runs ask for {sorted(horizons)}"
        raise ValueError(f"cannot compare {results.experiment}: {problem} (target, horizon, evaluate every)")
    return horizons.pop()


def run_times(results: Results, steps: pd.DataFrame, target: float, horizon: float) -> pd.DataFrame:
    """`time_to_target` of every finished run, also of those without a single evaluated snapshot."""
    found = results.done[RUN].merge(time_to_target(steps, target, horizon), on=RUN, how="left")
    return found.assign(time=found["time"].fillna(horizon), reached=found["reached"].eq(True))


def _rank(one: AlgorithmSummary) -> tuple[float, float, str]:
    return one.time.middle, -one.accuracy.middle if one.accuracy else 0.0, one.algorithm


def _measured(
    results: Results, label: str, steps: pd.DataFrame, times: pd.DataFrame, horizon: float
) -> AlgorithmSummary:
    """One algorithm's own numbers, before any comparison."""
    mine = times[times["algorithm"] == label]
    arrived = [t if reached else math.inf for t, reached in zip(mine["time"], mine["reached"], strict=True)]
    final = steps[steps["algorithm"] == label].groupby("seed")["accuracy"].last()
    seen = results.metrics[(results.metrics["algorithm"] == label) & (results.metrics["time"] <= horizon)]
    highest = seen.groupby("seed")[["version", "samples"]].max().mean()
    messages = results.messages[results.messages["algorithm"] == label]
    payload, until_target = _payload(messages, mine)
    return AlgorithmSummary(
        algorithm=label,
        seeds=len(mine),
        reached=int(mine["reached"].sum()),
        time=spread(arrived),
        speedup=None,
        payload=payload,
        payload_to_target=until_target,
        rounds=None if seen.empty else float(highest["version"]),
        samples=None if seen.empty else float(highest["samples"]),
        accuracy=None if final.empty else spread([float(value) for value in final], "mean"),
        shares=phase_shares(results.spans[results.spans["algorithm"] == label], messages, horizon),
    )


def _payload(messages: pd.DataFrame, times: pd.DataFrame) -> tuple[float | None, float | None]:
    """Mean bytes sent in all, and until the target by the runs that reached it.

    An algorithm without a single message recorded none, rather than having sent none.
    """
    if messages.empty:
        return None, None
    total = float(messages["bytes"].sum()) / len(times)
    until = [
        float(sent_until(messages[messages["seed"] == run.seed], pd.Series([run.time]).to_numpy(float))[0])
        for run in times[times["reached"]].itertuples()
    ]
    return total, (math.fsum(until) / len(until) if until else None)


def _baseline(ranked: Sequence[AlgorithmSummary], name: str | None) -> AlgorithmSummary | None:
    """The algorithm of that name, or the slowest; None when there is nothing to compare."""
    if name is None or not ranked:
        return ranked[-1] if ranked else None
    for one in ranked:
        if one.algorithm == name:
            return one
    raise ValueError(f"baseline {name!r} has no finished run; there is {[o.algorithm for o in ranked]}")


def _against(one: AlgorithmSummary, base: AlgorithmSummary | None, horizon: float) -> AlgorithmSummary:
    """`one` with its speed-up against `base`."""
    return one if base is None else replace(one, speedup=compare(one.time.middle, base.time.middle, horizon))


def compare(mine: float, other: float, horizon: float) -> Speedup | None:
    """How many times faster `mine` seconds are than `other`; a bound when one of them is infinite."""
    if math.isinf(mine) and math.isinf(other):
        return None
    bound = ">" if math.isinf(other) else "<" if math.isinf(mine) else ""
    mine, other = min(mine, horizon), min(other, horizon)
    if mine == other:
        return Speedup(1.0, bound)
    return Speedup(other / mine if mine > 0 else math.inf, bound)
