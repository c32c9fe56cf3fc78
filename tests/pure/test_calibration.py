"""How far one engine is off: errors, what is compared with what, and for which results it speaks."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from testbed.analysis.calibration import calibrated, calibration_table, compared_probes, compared_runs
from testbed.analysis.simulated import truth_in_words
from testbed.record import load_results
from testbed.record.calibration import (
    FILE,
    Calibration,
    Compared,
    read_calibration,
    settings_digest,
    write_calibration,
)
from testbed.record.results import Results
from testbed.spec.run import Failure, FlowModel, Tcp
from tests.pure.made_up_results import MadeUp, run_spec, star


def simulated(run: MadeUp) -> MadeUp:
    return replace(run, engine="sim", flow_model="today")


def emulated(run: MadeUp) -> MadeUp:
    return replace(run, experiment="demo-virtual")


def target(label: str, sim: float | None, virtual: float | None) -> Compared:
    return Compared("target", label, "", 0, sim, virtual)


def made(*rows: Compared, settings: str = "", flow_model: str = "today") -> Calibration:
    return Calibration("demo", 1, 0.8, settings, flow_model, rows)


def steps(**ends: list[float]) -> list[tuple[str, str, float, float]]:
    """Spans of steps that end at these times, and of waiting, which is no step."""
    found = [(node, "compute", end - 0.5, end) for node, times in ends.items() for end in times]
    return [*found, *((node, "recv", 0.0, 99.0) for node in ends)]


def both(results: Path, sim: MadeUp, virtual: MadeUp) -> tuple[Results, Results]:
    sim.write(results)
    virtual.write(results)
    return load_results(results, sim.experiment), load_results(results, virtual.experiment)


def one_of_each(results: Path) -> tuple[Results, Results]:
    """80 % at 42 s against 40 s; w0's third step at 3.3 s against 3 s, w1's first at 2 s against 2.5 s."""
    sim = simulated(MadeUp("ssgd", 1, [(10.0, 0.5), (42.0, 0.8)], spans=steps(w0=[1.0, 2.0, 3.3], w1=[2.0, 5.0])))
    virtual = emulated(MadeUp("ssgd", 1, [(10.0, 0.5), (40.0, 0.81)], spans=steps(w0=[1.0, 2.5, 3.0, 4.0], w1=[2.5])))
    return both(results, sim, virtual)


@pytest.mark.parametrize(
    ("sim", "virtual", "error"),
    [(11.0, 10.0, 0.1), (9.0, 10.0, -0.1), (None, 10.0, None), (10.0, None, None), (None, None, None),
     (0.0, 0.0, 0.0), (0.0, 4.0, -1.0), (4.0, 0.0, float("inf"))],
)  # fmt: skip
def test_the_error_is_a_share_of_the_emulated_time(
    sim: float | None, virtual: float | None, error: float | None
) -> None:
    found = target("ssgd", sim, virtual).error
    assert found == (None if error is None else pytest.approx(error))


def test_the_worst_is_off_the_most_either_way_among_the_chosen() -> None:
    small, early, late = target("a", 10.1, 10.0), target("b", 7.0, 10.0), target("c", 12.0, 10.0)
    probe = Compared("probe", "into-one", "w0", 3, 5.0, 10.0)
    calibration = made(small, early, late, probe)
    assert calibration.labels == ["a", "b", "c"]
    assert calibration.worst("target") == early
    assert calibration.worst("target", ["a", "c"]) == late
    assert calibration.worst("worker") is None
    assert calibration.worst("probe", ["a"]) == probe  # probes belong to the network, not to an algorithm


def test_a_time_that_one_engine_never_saw_is_the_worst_and_one_that_none_saw_is_nothing() -> None:
    never, lost = target("a", None, None), target("b", None, 10.0)
    assert made(never, lost, target("c", 90.0, 10.0)).worst("target") == lost
    assert made(never).worst("target") is None


def test_settings_are_what_all_runs_of_an_experiment_share() -> None:
    run = run_spec("ssgd", 1)
    same = replace(run_spec("fedavg", 3, "demo-sim"), engine="sim")
    assert settings_digest(same) == settings_digest(run)
    changed: list[dict[str, Any]] = [
        {"network": star((10e6, 99e6))}, {"tcp": Tcp("reno")}, {"failures": (Failure("w0", 3.0),)},
        {"compute": replace(run.compute, step=0.05)}, {"horizon": replace(run.horizon, time=60.0)},
        {"workload": replace(run.workload, lr=0.2)}, {"sim": FlowModel(slow_start=False)},
    ]  # fmt: skip
    digests = {settings_digest(replace(run, **change)) for change in changed}
    assert len(digests - {settings_digest(run)}) == len(changed)


def test_a_calibration_comes_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_calibration(tmp_path) is None
    calibration = made(target("ssgd", 11.0, None), Compared("probe", "into-one", "w0", 3, 5.0, 10.0))
    assert write_calibration(tmp_path, calibration) == tmp_path / "calibration.json"
    assert read_calibration(tmp_path) == calibration


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"seed": 1}', '{"seconds": 1}'])
def test_a_damaged_calibration_is_named_and_hides_no_results(tmp_path: Path, text: str) -> None:
    one_of_each(tmp_path)
    (tmp_path / "demo" / FILE).write_text(text)
    with pytest.raises(ValueError, match=r"calibration\.json is damaged or of another version"):
        read_calibration(tmp_path / "demo")
    found = load_results(tmp_path, "demo")
    assert len(found.metrics) == 2
    assert truth_in_words(found) == (
        "Not calibrated: calibration.json is damaged or of another version; testbed calibrate does it again"
    )


def test_targets_and_the_last_steps_that_both_took_are_compared(tmp_path: Path) -> None:
    assert compared_runs(*one_of_each(tmp_path), seed=1, target=0.8, horizon=120.0) == [
        Compared("target", "ssgd", "", 0, 42.0, 40.0),
        Compared("worker", "ssgd", "w0", 3, 3.3, 3.0),
        Compared("worker", "ssgd", "w1", 1, 2.0, 2.5),
    ]


def test_a_worker_that_took_a_step_on_one_engine_only_has_no_time_on_the_other(tmp_path: Path) -> None:
    sim = simulated(MadeUp("ssgd", 1, [(10.0, 0.5)], spans=steps(w0=[1.0])))
    virtual = emulated(MadeUp("ssgd", 1, [(10.0, 0.5)], spans=steps(w0=[1.0], w1=[7.0, 8.0])))
    assert compared_runs(*both(tmp_path, sim, virtual), seed=1, target=0.8, horizon=120.0) == [
        target("ssgd", None, None),
        Compared("worker", "ssgd", "w0", 1, 1.0, 1.0),
        Compared("worker", "ssgd", "w1", 0, None, 7.0),
    ]


def test_other_seeds_and_runs_that_only_one_engine_has_are_left_out(tmp_path: Path) -> None:
    simulated(MadeUp("ssgd", 2, [(3.0, 0.9)], spans=steps(w0=[0.7]))).write(tmp_path)
    simulated(MadeUp("fedavg", 1, [(3.0, 0.9)])).write(tmp_path)
    rows = compared_runs(*one_of_each(tmp_path), seed=1, target=0.8, horizon=120.0)
    assert [(row.label, row.sim) for row in rows] == [("ssgd", 42.0), ("ssgd", 3.3), ("ssgd", 2.0)]


def test_probes_are_compared_by_each_senders_last_message_that_came_on_both(tmp_path: Path) -> None:
    sim = simulated(MadeUp("into-one", 1, [(0.0, 0.1)], arrivals=[("w1", 2.0), ("w0", 1.0), ("w1", 4.0), ("w0", 3.0)]))
    virtual = emulated(MadeUp("into-one", 1, [(0.0, 0.1)], arrivals=[("w0", 1.5), ("w1", 2.5), ("w0", 6.0)]))
    assert compared_probes(*both(tmp_path, sim, virtual), seed=1) == [
        Compared("probe", "into-one", "w0", 2, 3.0, 6.0),
        Compared("probe", "into-one", "w1", 1, 2.0, 2.5),
    ]


def test_probes_of_another_seed_or_that_failed_on_one_engine_say_nothing(tmp_path: Path) -> None:
    for seed, late in ((1, 0.0), (2, 50.0)):
        for engine, time in ((simulated, 3.0), (emulated, 4.0)):
            engine(MadeUp("into-one", seed, [(0.0, 0.1)], arrivals=[("w0", late + time)])).write(tmp_path)
    simulated(MadeUp("both", 1, [(0.0, 0.1)], arrivals=[("w0", 3.0)])).write(tmp_path)
    emulated(MadeUp("both", 1, [(0.0, 0.1)])).write(tmp_path).path.joinpath("DONE").unlink()
    pair = [load_results(tmp_path, name) for name in ("demo", "demo-virtual")]
    assert compared_probes(pair[0], pair[1], 1) == [Compared("probe", "into-one", "w0", 1, 3.0, 4.0)]


def test_a_calibration_needs_a_simulated_run_of_its_seed(tmp_path: Path) -> None:
    own = one_of_each(tmp_path)
    calibration = calibrated(own, [], 1)
    assert (calibration.experiment, calibration.target, calibration.flow_model) == ("demo", 0.8, "today")
    assert calibration.settings == settings_digest(run_spec("ssgd", 9))
    with pytest.raises(ValueError, match="no run of demo is done with seed 2"):
        calibrated(own, [], 2)


def test_the_table_shows_every_time_and_marks_what_is_far_off() -> None:
    rows = (
        target("ssgd", 42.0, 40.0), Compared("worker", "ssgd", "w0", 1, 7.0, 10.0),
        target("fedavg", None, None), Compared("worker", "fedavg", "w1", 0, None, 7.0),
        Compared("probe", "into-one", "w1", 2, 5.0, 5.0),
    )  # fmt: skip
    said = io.StringIO()
    Console(file=said, width=80, color_system="standard", force_terminal=True).print(calibration_table(made(*rows)))
    lines = said.getvalue().splitlines()
    plain = io.StringIO()
    Console(file=plain, width=80).print(calibration_table(made(*rows)))
    words = [" ".join(line.split()) for line in plain.getvalue().splitlines()]
    assert "demo: the sim engine against the virtual one, seed 1" in words
    wanted = [
        "ssgd time to 80 % 42.00 s 40.00 s +5.0 %", "w0: 1 step 7.00 s 10.00 s -30.0 %",
        "fedavg time to 80 % never never -", "w1: 0 steps never 7.00 s !",
        "into-one w1: 2 messages 5.00 s 5.00 s +0.0 %",
    ]  # fmt: skip
    assert [line for line in words if line in wanted] == wanted
    red = [line for line in lines if "\x1b[1;31m" in line]
    assert ["-30.0 %" in red[0], "!" in red[1], len(red)] == [True, True, 2]


def test_emulated_results_need_no_calibration(tmp_path: Path) -> None:
    assert truth_in_words(one_of_each(tmp_path)[1]) == ""


def test_simulated_results_say_that_nobody_calibrated_them_or_how_far_they_are_off(tmp_path: Path) -> None:
    own = one_of_each(tmp_path)
    assert truth_in_words(own[0]) == "Not calibrated against emulation; testbed calibrate does that"
    write_calibration(tmp_path / "demo", calibrated(own, [], 1))
    assert truth_in_words(load_results(tmp_path, "demo")) == (
        "Against emulation (seed 1): time to 80 % off by up to +5.0 %, workers' times off by up to -20.0 %"
    )


def test_what_came_on_one_engine_only_is_told(tmp_path: Path) -> None:
    one_of_each(tmp_path)
    settings = settings_digest(run_spec("ssgd", 1))
    probe = Compared("probe", "into-one", "w0", 1, 3.0, None)
    write_calibration(tmp_path / "demo", made(target("ssgd", None, 40.0), probe, settings=settings))
    assert truth_in_words(load_results(tmp_path, "demo")) == (
        "Against emulation (seed 1): time to 80 % of ssgd only on the virtual engine, "
        "bulk probes of into-one only on the sim engine"
    )


def test_a_calibration_of_something_else_is_doubted(tmp_path: Path) -> None:
    own = one_of_each(tmp_path)
    good = calibrated(own, [], 1)

    def doubt(calibration: Calibration) -> str:
        write_calibration(tmp_path / "demo", calibration)
        found = truth_in_words(load_results(tmp_path, "demo"))
        return found.removeprefix("Not calibrated: ").removesuffix("; testbed calibrate does it again")

    other = settings_digest(run_spec("ssgd", 1, network=star((10e6, 99e6))))
    assert doubt(replace(good, settings=other)) == "the calibration was made with other settings"
    assert doubt(replace(good, flow_model="old")) == "the calibration was made with another version of the model"
    simulated(MadeUp("fedavg", 1, [(3.0, 0.9)])).write(tmp_path)
    assert doubt(good) == "the calibration is without fedavg"
