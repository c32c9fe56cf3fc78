"""The numbers of a comparison, against values derived by hand from made-up runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from testbed.analysis.comparison import plain_table
from testbed.analysis.summary import Speedup, Spread, compare, spread, summarise
from testbed.record import load_results
from testbed.record.folder import RunFolder
from tests.pure.made_up_results import MadeUp, three_against_three


def test_times_ranges_and_speedups(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    summary = summarise(load_results(tmp_path, "demo"))
    fedavg, ssgd = summary.algorithms
    assert (fedavg.algorithm, fedavg.time) == ("fedavg", Spread(22.0, 20.0, 24.0))
    assert (ssgd.algorithm, ssgd.time) == ("ssgd", Spread(55.0, 50.0, 66.0))
    assert (fedavg.speedup, ssgd.speedup) == (Speedup(2.5), Speedup(1.0))
    assert summary.baseline == "ssgd"
    named = summarise(load_results(tmp_path, "demo"), baseline="fedavg")
    assert named.algorithms[1].speedup == Speedup(22 / 55)


def test_bytes_rounds_samples_accuracy_and_shares(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    fedavg, ssgd = summarise(load_results(tmp_path, "demo")).algorithms
    # fedavg is there before its second message leaves at 30 s; ssgd has sent at 10 and 40 s by then.
    assert (fedavg.payload, fedavg.payload_to_target) == (2e6, 1e6)
    assert (ssgd.payload, ssgd.payload_to_target) == (12e6, 8e6)
    assert (fedavg.rounds, fedavg.samples) == (3, 960)
    assert fedavg.accuracy is not None and fedavg.accuracy.middle == pytest.approx(0.92)
    assert (fedavg.accuracy.low, fedavg.accuracy.high) == (0.91, 0.93)
    assert fedavg.shares is not None and fedavg.shares["compute"] == pytest.approx(30 / 120)
    assert ssgd.shares is None


def test_censored_runs_bound_the_speedup_and_leave_the_bytes_to_those_that_arrive(tmp_path: Path) -> None:
    for seed, top in ((1, 0.9), (2, 0.9), (3, 0.5)):
        MadeUp("fast", seed, [(24.0, top)], [(20.0 * seed, 10)]).write(tmp_path)
        MadeUp("slow", seed, [(24.0, 0.5)]).write(tmp_path)
    fast, slow = summarise(load_results(tmp_path, "demo")).algorithms
    assert fast.time == Spread(24.0, 24.0, math.inf)
    assert fast.reached == 2
    assert fast.speedup == Speedup(5.0, ">")  # at least 120 / 24
    assert fast.payload_to_target == 5.0  # seed 1 had sent 10 bytes by then, seed 2 none
    assert slow.speedup is None and slow.payload is None


def test_a_run_without_any_evaluated_model_is_censored_not_lost(tmp_path: Path) -> None:
    MadeUp("fast", 1, [(24.0, 0.9)]).write(tmp_path)
    MadeUp("mute", 1, []).write(tmp_path)
    mute = summarise(load_results(tmp_path, "demo")).algorithms[1]
    assert (mute.algorithm, mute.seeds, mute.reached) == ("mute", 1, 0)
    assert mute.accuracy is None and mute.rounds is None


def test_the_median_of_an_even_number_and_of_censored_times() -> None:
    assert spread([4.0, 1.0, 2.0, 10.0]) == Spread(3.0, 1.0, 10.0)
    assert spread([4.0, math.inf]) == Spread(math.inf, 4.0, math.inf)
    assert spread([1.0, 2.0, 6.0], "mean") == Spread(3.0, 1.0, 6.0)


def test_comparing_with_times_that_never_came() -> None:
    assert compare(60.0, math.inf, 120.0) == Speedup(2.0, ">")
    assert compare(math.inf, 60.0, 120.0) == Speedup(0.5, "<")
    assert compare(math.inf, math.inf, 120.0) is None
    assert compare(0.0, 0.0, 120.0) == Speedup(1.0)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    with pytest.raises(ValueError, match="baseline 'sgd' has no finished run"):
        summarise(load_results(tmp_path, "demo"), baseline="sgd")
    spec = tmp_path / "demo/ssgd/seed=1/spec.yaml"
    spec.write_text(spec.read_text().replace("0.8", "0.7"))
    with pytest.raises(ValueError, match="its runs ask for"):
        summarise(load_results(tmp_path, "demo"))


def test_the_plain_table_shows_everything_in_eighty_columns(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    (tmp_path / "demo/ssgd/seed=2/fidelity.json").write_text('{"degraded": "link a-b 12 % slow"}')
    (tmp_path / "demo/ssgd/seed=3/DONE").unlink()
    RunFolder(tmp_path / "demo/ssgd/seed=3").fail("out of memory")
    text = plain_table(summarise(load_results(tmp_path, "demo")), width=80)
    assert "\x1b" not in text and max(map(len, text.splitlines())) <= 80
    for part in ("time to 80 %", "vs ssgd", "20.0 to 24.0", "2.39x", "of 12.0", "25/1/74 %", "91.0 to 93.0"):
        assert part in text
    assert "Not counted: ssgd seed 3: failed: out of memory" in text
    assert "Degraded: ssgd seed 2: link a-b 12 % slow" in text


def test_nothing_is_cut_off_where_numbers_and_names_are_long(tmp_path: Path) -> None:
    for label, times in (("fedavg-with-ten-steps", (41.2, 44.2, 44.4)), ("ssgd", (96.5, 102.1, 106.3))):
        for seed, time in enumerate(times, 1):
            sent = [(1.0, 358_900_000), (119.0, 64_200_000)]
            MadeUp(label, seed, [(time, 0.82 + seed / 100)], sent, [("w0", "compute", 0.0, 30.0)]).write(tmp_path)
    text = plain_table(summarise(load_results(tmp_path, "demo")), width=80)
    assert max(map(len, text.splitlines())) <= 80
    for part in ("41.2 to 44.4", "96.5 to 106.3", "2.31x", "of 423.1", "83.0 to 85.0"):
        assert part in text
    assert "\u2026" not in text
    # The name's column gives way: its lines, put together, are the name.
    lines = [line[1:].split("  ")[0].strip() for line in text.splitlines()]
    assert "fedavg-with-ten-steps" in "".join(lines)
