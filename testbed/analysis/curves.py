"""Accuracy over time: one curve per run, and one per algorithm over its seeds.

A run's accuracy is a step function: it holds from one evaluated snapshot to the next, and after the
last. Where several nodes show their models (no server), the run's accuracy is the mean over the nodes
that have shown one, so that many nodes do not get many chances at the target.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

EXACT = 1e-9
"""Slack on accuracies: far below one test sample, far above a rounding error of their mean."""

RUN = ["algorithm", "seed"]


def accuracy_steps(metrics: pd.DataFrame, horizon: float = math.inf) -> pd.DataFrame:
    """Every run's step function: columns algorithm, seed, time, accuracy.

    One row per time at which a snapshot was evaluated, in the order of time, up to `horizon` seconds.
    An accuracy that is not a number counts as 0: such a model classifies nothing.
    """
    kept = metrics[metrics["time"] <= horizon]
    pieces = []
    for _, run in kept.groupby(RUN, sort=False):
        pieces.append(_steps_of_run(run).assign(algorithm=run["algorithm"].iloc[0], seed=run["seed"].iloc[0]))
    columns = [*RUN, "time", "accuracy"]
    if not pieces:
        return pd.DataFrame({name: kept[name] for name in columns})
    return pd.concat(pieces, ignore_index=True)[columns]


def _steps_of_run(run: pd.DataFrame) -> pd.DataFrame:
    """Time and accuracy of one run, averaged over the nodes that have shown a model by then."""
    ordered = run.sort_values(["time", "version"], kind="stable").fillna({"accuracy": 0.0})
    # Of two snapshots of a node at one time the later version counts.
    last = ordered.drop_duplicates(["time", "node"], keep="last")
    by_node = last.pivot(index="time", columns="node", values="accuracy").sort_index().ffill()
    return pd.DataFrame({"time": by_node.index.to_numpy(), "accuracy": by_node.mean(axis=1).to_numpy()})


def time_to_target(steps: pd.DataFrame, target: float, horizon: float) -> pd.DataFrame:
    """When every run of `steps` reached `target`: columns algorithm, seed, time, reached.

    `time` is the time of the first evaluated snapshot at or above the target (0 to 1), never an
    interpolation. A run that does not get there is censored: `reached` is false and `time` the horizon.
    """
    rows = []
    for (label, seed), run in steps.groupby(RUN, sort=False):
        hits = run["time"][(run["accuracy"] >= target - EXACT) & (run["time"] <= horizon)]
        reached = len(hits) > 0
        time = float(hits.min()) if reached else float(horizon)
        rows.append({"algorithm": label, "seed": seed, "time": time, "reached": reached})
    return pd.DataFrame(rows, columns=[*RUN, "time", "reached"])


def with_payload(steps: pd.DataFrame, messages: pd.DataFrame) -> pd.DataFrame:
    """`steps` with a column `sent`: payload bytes that all nodes of the run had sent by that time."""
    pieces = []
    for (label, seed), run in steps.groupby(RUN, sort=False):
        mine = messages[(messages["algorithm"] == label) & (messages["seed"] == seed)]
        pieces.append(run.assign(sent=sent_until(mine, run["time"].to_numpy(dtype=float))))
    return pd.concat(pieces, ignore_index=True) if pieces else steps.assign(sent=0.0)


def sent_until(messages: pd.DataFrame, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Payload bytes of one run's `messages` sent at or before each of `times`."""
    ordered = messages.sort_values("sent", kind="stable")
    total = np.concatenate([[0.0], np.cumsum(ordered["bytes"].to_numpy(dtype=float))])
    done: npt.NDArray[np.float64] = total[np.searchsorted(ordered["sent"].to_numpy(float), times, "right")]
    return done


def mean_curve(steps: pd.DataFrame, grid: npt.NDArray[np.float64] | None = None, over: str = "time") -> pd.DataFrame:
    """Every algorithm's curve over its seeds: columns algorithm, <over>, mean, low, high, seeds.

    All seeds are read at the same points of `grid`, each holding its last value; without a grid these
    are all points at which any run of the algorithm changes, which loses nothing. Before every seed
    has its first value there is no mean, and no row. `over` is the column on the horizontal axis.
    """
    pieces = []
    for label, runs in steps.groupby("algorithm", sort=False):
        points = np.unique(runs[over].to_numpy(dtype=float)) if grid is None else grid
        by_seed = np.vstack([_held(run, points, over) for _, run in runs.groupby("seed")])
        there = ~np.isnan(by_seed).any(axis=0)
        values = by_seed[:, there]
        curve = {over: points[there], "mean": values.mean(0), "low": values.min(0), "high": values.max(0)}
        pieces.append(pd.DataFrame(curve).assign(seeds=len(by_seed)).assign(algorithm=label))
    columns = ["algorithm", over, "mean", "low", "high", "seeds"]
    return pd.concat(pieces, ignore_index=True)[columns] if pieces else pd.DataFrame(columns=columns)


def _held(run: pd.DataFrame, points: npt.NDArray[np.float64], over: str) -> npt.NDArray[np.float64]:
    """The run's accuracy at `points`, the last value held; NaN before the first."""
    ordered = run.sort_values(over, kind="stable")
    values = np.concatenate([[np.nan], ordered["accuracy"].to_numpy(dtype=float)])
    held: npt.NDArray[np.float64] = values[np.searchsorted(ordered[over].to_numpy(float), points, "right")]
    return held
