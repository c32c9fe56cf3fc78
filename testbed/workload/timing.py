"""How long a mini-batch takes: the model of a worker's speed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from testbed.spec.run import Compute
from testbed.workload.partition import jitter_stream


def step_times(compute: Compute, rank: int, seed: int) -> Iterator[float]:
    """Seconds of each mini-batch of a worker, without end: step x slowdown x jitter.

    Lognormal jitter is exp(N(-sigma^2/2, sigma)), whose mean is 1, so that jitter alone makes no
    worker slower on average.
    """
    slowdown = compute.slowdown[rank] if compute.slowdown else 1.0
    base = compute.step * slowdown
    sigma = compute.jitter.sigma if compute.jitter.kind == "lognormal" else 0.0
    rng = jitter_stream(seed, rank)
    while True:
        factor = float(np.exp(rng.normal(-sigma * sigma / 2, sigma))) if sigma else 1.0
        yield base * factor
