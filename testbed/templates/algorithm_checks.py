"""What must hold for StartingPoint, whatever the numbers: each test follows from its equations.

A trial runs the algorithm over a simulated star of equal links, in one process and in a moment.
"""

from __future__ import annotations

import numpy as np

from testbed.engines.sim.trial import trial
from testbed.templates.algorithm import Hyper, StartingPoint


def test_one_worker_does_plain_sgd() -> None:
    """With N = 1 and eta = 1, W_{v+1} is what the worker has made of W_v: after v rounds v * K steps."""
    run = trial(StartingPoint, Hyper(local_steps=3), workers=1, horizon=2.0)
    assert run.snapshots
    for snapshot in run.snapshots:
        expected, _ = run.objective.train(run.objective.initial, 0, 0, 3 * snapshot.version)
        np.testing.assert_allclose(snapshot.model, expected, rtol=0, atol=1e-5)  # a float32 sum rounds


def test_without_steps_nothing_changes() -> None:
    run = trial(StartingPoint, Hyper(local_steps=0), horizon=1.0)
    assert run.snapshots
    for snapshot in run.snapshots:
        np.testing.assert_array_equal(snapshot.model, run.objective.initial)


def test_a_seed_gives_the_same_run_to_the_last_bit() -> None:
    first, second = (trial(StartingPoint, seed=7, horizon=2.0) for _ in range(2))
    assert first.messages == second.messages
    assert [(s.time, s.model.tobytes()) for s in first.snapshots] == [
        (s.time, s.model.tobytes()) for s in second.snapshots
    ]
