"""Shares of the workers' time, on intervals whose lengths are known."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.phases import covered, phase_shares

NO_MESSAGES: list[tuple[str, str, float, float]] = []


def shares(
    spans: list[tuple[str, str, float, float]], messages: list[tuple[str, str, float, float]]
) -> dict[str, float] | None:
    return phase_shares(
        pd.DataFrame(spans, columns=["node", "phase", "start", "end"]).assign(algorithm="a", seed=1),
        pd.DataFrame(messages, columns=["source", "target", "sent", "arrived"]).assign(algorithm="a", seed=1),
        100.0,
    )


def test_transfer_is_what_is_under_way_while_nothing_is_computed() -> None:
    # Computes 0-30; its gradient travels 30-50; it waits 50-70; the next model travels 70-100.
    spans = [("w", "compute", 0.0, 30.0), ("w", "recv", 30.0, 100.0), ("ps", "recv", 0.0, 100.0)]
    found = shares(spans, [("w", "ps", 30.0, 50.0), ("ps", "w", 70.0, 100.0), ("v", "ps", 0.0, 100.0)])
    assert found == pytest.approx({"compute": 0.3, "transfer": 0.5, "wait": 0.2})


def test_computing_while_messages_travel_is_computing() -> None:
    found = shares([("w", "compute", 0.0, 100.0), ("w", "recv", 0.0, 100.0)], [("ps", "w", 0.0, 90.0)])
    assert found == pytest.approx({"compute": 1.0, "transfer": 0.0, "wait": 0.0})


def test_overlapping_spans_count_once_and_end_at_the_horizon() -> None:
    nan = float("nan")
    found = shares([("w", "compute", 0.0, 40.0), ("w", "compute", 20.0, 50.0)], [("w", "ps", 90.0, nan)])
    assert found == pytest.approx({"compute": 0.5, "transfer": 0.1, "wait": 0.4})


def test_workers_are_averaged_and_none_means_none() -> None:
    found = shares([("w", "compute", 0.0, 100.0), ("v", "compute", 0.0, 50.0)], NO_MESSAGES)
    assert found == pytest.approx({"compute": 0.75, "transfer": 0.0, "wait": 0.25})
    assert shares([("ps", "recv", 0.0, 100.0)], NO_MESSAGES) is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20))
def test_covered_counts_the_seconds_in_at_least_one_interval(pairs: list[tuple[int, int]]) -> None:
    seconds = {second for start, length in pairs for second in range(start, start + length)}
    assert covered([s for s, _ in pairs], [s + n for s, n in pairs]) == len(seconds)
