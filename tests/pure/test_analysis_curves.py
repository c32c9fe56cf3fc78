"""Step functions, time to target and means over seeds, against values derived by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.curves import accuracy_steps, mean_curve, sent_until, time_to_target, with_payload


def metrics(*rows: tuple[int, float, str, float], label: str = "a") -> pd.DataFrame:
    """Rows of seed, time, node, accuracy; versions count up."""
    frame = pd.DataFrame(rows, columns=["seed", "time", "node", "accuracy"])
    return frame.assign(algorithm=label, version=range(len(frame)))


def test_the_time_is_that_of_the_first_snapshot_at_or_above_the_target() -> None:
    steps = accuracy_steps(metrics((1, 10, "ps", 0.7), (1, 20, "ps", 0.8), (1, 30, "ps", 0.9)))
    found = time_to_target(steps, 0.8, 120)
    assert found[["time", "reached"]].values.tolist() == [[20.0, True]]
    # Halfway between two snapshots is never an answer.
    assert time_to_target(steps, 0.75, 120)["time"].tolist() == [20.0]


def test_a_run_that_dips_again_has_arrived_all_the_same() -> None:
    steps = accuracy_steps(metrics((1, 10, "ps", 0.81), (1, 20, "ps", 0.5)))
    assert time_to_target(steps, 0.8, 120)["time"].tolist() == [10.0]


def test_a_run_that_never_arrives_is_censored_at_the_horizon() -> None:
    rows = metrics((1, 10, "ps", 0.7), (1, 121, "ps", 0.9))
    found = time_to_target(accuracy_steps(rows, 120), 0.8, 120)
    assert found[["time", "reached"]].values.tolist() == [[120.0, False]]


def test_several_nodes_count_by_their_mean() -> None:
    # w0 alone is at 0.8 after 10 s; the mean of both is (0.8 + 0.6) / 2, then (0.8 + 0.8) / 2.
    rows = metrics((1, 5, "w1", 0.6), (1, 10, "w0", 0.8), (1, 20, "w1", 0.8))
    steps = accuracy_steps(rows)
    assert steps["accuracy"].tolist() == pytest.approx([0.6, 0.7, 0.8])
    assert time_to_target(steps, 0.8, 120)["time"].tolist() == [20.0]


def test_of_two_snapshots_at_one_time_the_later_version_counts_and_nan_is_nothing() -> None:
    rows = metrics((1, 5, "ps", 0.9), (1, 5, "ps", 0.2), (1, 6, "ps", float("nan")))
    assert accuracy_steps(rows)["accuracy"].tolist() == [0.2, 0.0]


def test_the_mean_holds_every_seeds_last_value_and_starts_with_the_last_seed() -> None:
    rows = metrics((1, 10, "ps", 0.2), (1, 30, "ps", 0.6), (2, 20, "ps", 0.4))
    curve = mean_curve(accuracy_steps(rows), np.array([0.0, 10.0, 20.0, 25.0, 30.0, 120.0]))
    assert curve["time"].tolist() == [20.0, 25.0, 30.0, 120.0]
    assert curve["mean"].tolist() == pytest.approx([0.3, 0.3, 0.5, 0.5])
    assert curve["low"].tolist() == pytest.approx([0.2, 0.2, 0.4, 0.4])
    assert curve["high"].tolist() == pytest.approx([0.4, 0.4, 0.6, 0.6])
    assert curve["seeds"].tolist() == [2] * 4


def test_without_a_grid_the_curve_has_every_point_of_change() -> None:
    rows = metrics((1, 10, "ps", 0.2), (2, 5, "ps", 0.4), (2, 15, "ps", 0.6))
    assert mean_curve(accuracy_steps(rows))["time"].tolist() == [10.0, 15.0]


def test_bytes_are_counted_up_to_and_including_the_moment() -> None:
    messages = pd.DataFrame({"sent": [30.0, 10.0, 20.0], "bytes": [4, 1, 2]})
    assert sent_until(messages, np.array([5.0, 10.0, 29.0, 30.0])).tolist() == [0, 1, 3, 7]
    steps = accuracy_steps(metrics((1, 10, "ps", 0.2), (1, 30, "ps", 0.6)))
    assert with_payload(steps, messages.assign(algorithm="a", seed=1))["sent"].tolist() == [1, 7]


def test_nothing_gives_nothing() -> None:
    steps = accuracy_steps(metrics())
    assert len(steps) == len(time_to_target(steps, 0.8, 120)) == len(mean_curve(steps)) == 0
