"""The sentence that answers the question, in every case."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.analysis.answer import answer, seconds
from testbed.analysis.summary import summarise
from testbed.record import load_results
from testbed.record.folder import RunFolder
from tests.pure.made_up_results import MadeUp, run_spec, three_against_three


def told(folder: Path, times: dict[str, list[float | None]], baseline: str | None = None) -> str:
    """The answer to runs that reach 80 % at these times, seeds counting from 1; None ends at 50 %."""
    for label, ends in times.items():
        for seed, time in enumerate(ends, start=1):
            MadeUp(label, seed, [(1.0, 0.5), (time or 100.0, 0.5 if time is None else 0.8)]).write(folder)
    return answer(summarise(load_results(folder, "demo"), baseline))


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        (
            {"fedavg": [22.9, 23.4, 24.1], "ssgd": [54.0, 54.1, 60.0]},
            "fedavg reaches 80 % first: 23.4 s (22.9 to 24.1), 2.31x faster than ssgd.",
        ),
        (
            {"a": [10.0, 10.0], "b": [20.0, 20.0], "c": [80.0, 80.0]},
            "a reaches 80 % first: 10.0 s (10.0 to 10.0), 2.00x faster than b and 8.00x faster than c.",
        ),
        (
            {"a": [20.0, 30.0, 40.0], "b": [39.0, 45.0, 50.0]},
            "a reaches 80 % first: 30.0 s (20.0 to 40.0), 1.50x faster than b; "
            "the ranges over seeds overlap with b, so the order is not certain.",
        ),
        (
            {"a": [24.0, 24.0], "b": [None, None]},
            "a reaches 80 % first: 24.0 s (24.0 to 24.0), more than 5.00x faster than b (not there within 120 s).",
        ),
        (
            {"a": [20.0], "b": [60.0]},
            "a reaches 80 % first: 20.0 s, 3.00x faster than b; one seed, so the spread is unknown.",
        ),
        (
            {"a": [20.0, 21.0], "b": [22.0, 23.0]},
            "a reaches 80 % first: 20.5 s (20.0 to 21.0), 1.10x faster than b; "
            "the gap is below the 2 s between evaluations.",
        ),
        ({"a": [20.0, 22.0, None]}, "a reaches 80 % in 22.0 s (20.0 to > 120; 2 of 3 seeds)."),
        ({"a": [20.0]}, "a reaches 80 % in 20.0 s; one seed, so the spread is unknown."),
        ({"a": [None]}, "a does not reach 80 % within 120 s; it ends at 50.0 %."),
        (
            {"a": [None, None], "b": [None, None]},
            "No algorithm reaches 80 % within 120 s; a comes closest with 50.0 % (50.0 to 50.0).",
        ),
        (
            {"a": [None, None, 20.0], "b": [None, None, None]},
            "No algorithm reaches 80 % within 120 s in most seeds, only a in 1 of 3 seeds.",
        ),
        (
            {"a": [20.0, 20.0], "b": [20.0, 20.0]},
            "a and b reach 80 % first, at the same time: 20.0 s (20.0 to 20.0).",
        ),
    ],
)
def test_the_sentence(tmp_path: Path, times: dict[str, list[float | None]], sentence: str) -> None:
    assert told(tmp_path, times) == sentence


def test_a_named_baseline_is_compared_with_too(tmp_path: Path) -> None:
    said = told(tmp_path, {"a": [10.0, 10.0], "b": [20.0, 20.0], "c": [40.0, 40.0], "d": [80.0] * 2}, "c")
    assert said.endswith("2.00x faster than b and 4.00x faster than c.")


def test_lost_runs_are_counted(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    RunFolder(tmp_path / "demo/ssgd/seed=4").fail("out of memory")
    said = answer(summarise(load_results(tmp_path, "demo")))
    assert said.endswith("2.50x faster than ssgd; 2 of 8 runs failed or are missing.")


def test_an_experiment_without_a_finished_run(tmp_path: Path) -> None:
    run = run_spec("a", 1)
    folder = RunFolder.of(tmp_path, run)
    folder.begin(run, {})
    folder.fail("out of memory")
    said = answer(summarise(load_results(tmp_path, "demo")))
    assert said == "No run of demo is done; 1 of 1 runs failed or are missing."


def test_seconds_are_short_and_censored_times_say_so() -> None:
    assert [seconds(time, 120) for time in (9.04, 1234.5, float("inf"))] == ["9.0 s", "1234 s", "> 120 s"]
