"""What workers do with their time: compute, wait for a transfer, or wait for others.

Counted over a worker's whole time, so that overlapping activities are not counted twice: an algorithm that
computes while its messages travel shows 100 % of computing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from testbed.analysis.curves import RUN

PHASES = ("compute", "transfer", "wait")


def covered(starts: npt.ArrayLike, ends: npt.ArrayLike) -> float:
    """Length of the union of intervals."""
    begin, end = np.asarray(starts, float), np.asarray(ends, float)
    if not begin.size:
        return 0.0
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    # An interval adds what lies beyond everything that began before it.
    before = np.concatenate([[-np.inf], end[:-1]])
    return float(np.clip(end - np.maximum(begin, before), 0, None).sum())


def phase_shares(spans: pd.DataFrame, messages: pd.DataFrame, horizon: float) -> dict[str, float] | None:
    """Mean shares of `PHASES` in the workers' time from start to horizon; None when nobody computed.

    A worker is a node that computes. It transfers while it does not compute and a message from it or to it
    is under way; what is left is waiting for others. What has no end was under way at the horizon.
    """
    computing = spans[spans["phase"] == "compute"]
    shares = []
    for (*run, worker), mine in computing.groupby([*RUN, "node"]):
        same_run = (messages[RUN] == run).all(axis=1)
        theirs = messages[same_run & ((messages["source"] == worker) | (messages["target"] == worker))]
        starts, ends = mine["start"], mine["end"].fillna(horizon).clip(upper=horizon)
        sent, arrived = theirs["sent"], theirs["arrived"].fillna(horizon).clip(upper=horizon)
        compute = covered(starts, ends)
        busy = covered(pd.concat([starts, sent]), pd.concat([ends, arrived]))
        shares.append((compute, busy - compute, horizon - busy))
    if not shares:
        return None
    return dict(zip(PHASES, (float(part) for part in np.mean(shares, axis=0) / horizon), strict=True))
