"""The experiment file: what it means, how it expands, and how a run survives its spec.yaml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.spec.expand import expand
from testbed.spec.experiment import load_experiment
from testbed.spec.faults import SpecError
from testbed.spec.run import AlgorithmChoice, Failure, FlowModel, Jitter, RunSpec
from testbed.spec.spec_yaml import read_spec_yaml, write_spec_yaml
from tests.pure.small_experiment import CATALOGUE, FILE, ROOT, UNHURRIED, faults, load


def test_quickstart() -> None:
    experiment = load_experiment(ROOT / "experiments" / "quickstart.yaml", CATALOGUE)
    network = experiment.network.network
    assert experiment.name == "quickstart"
    assert len(network.workers) == 8
    rates = [link.forward.rate or 0 for link in network.links]
    assert (min(rates), max(rates)) == (10e6, 100e6)
    assert min(link.round_trip for link in network.links) == pytest.approx(0.02)
    assert max(link.round_trip for link in network.links) == pytest.approx(0.2)
    assert len(expand(experiment)) == len(experiment.algorithms) * len(experiment.seeds)


def test_what_is_left_out(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    assert experiment.name == "small"
    assert experiment.engine == "virtual"
    assert expand(experiment)[0].failures == ()
    assert expand(experiment)[0].sim == FlowModel(slow_start=True)
    assert experiment.workload.momentum == 0 and experiment.workload.partition == "iid"
    assert experiment.compute.jitter == Jitter()
    assert experiment.network.tcp.congestion == "cubic"


def test_every_seed_meets_every_algorithm(tmp_path: Path) -> None:
    text = FILE.replace("[ssgd]", "[ssgd, fedavg]").replace("[1]", "5..7")
    runs = expand(load(tmp_path, text))
    assert [(run.seed, run.algorithm.label) for run in runs] == [
        (5, "ssgd"), (5, "fedavg"), (6, "ssgd"), (6, "fedavg"), (7, "ssgd"), (7, "fedavg"),
    ]  # fmt: skip
    assert all(replace(run, seed=5, algorithm=runs[0].algorithm) == runs[0] for run in runs)
    assert runs[0].compute.slowdown == (1.0, 1.0)
    assert runs[0].compute.step == 0.04
    assert runs[0].horizon.target == 0.8


@pytest.mark.parametrize(
    ("written", "factors"),
    [("3", (3.0, 3.0)), ("[1, 2.5]", (1.0, 2.5)), ("{w2: 4}", (1.0, 4.0))],
)
def test_slowdown_in_three_ways(tmp_path: Path, written: str, factors: tuple[float, ...]) -> None:
    text = FILE.replace("40 ms}", f"40 ms, slowdown: {written}}}")
    assert expand(load(tmp_path, text))[0].compute.slowdown == factors


def test_failures_are_in_the_order_of_time(tmp_path: Path) -> None:
    text = FILE + "failures: {w2: 30 s, w1: 30 s, server: 500 ms}\nengine: sim\nsim: {slow_start: false}\n"
    (run,) = expand(load(tmp_path, text))
    assert run.failures == (Failure("server", 0.5), Failure("w1", 30.0), Failure("w2", 30.0))
    assert (run.engine, run.sim) == ("sim", FlowModel(slow_start=False))
    assert read_spec_yaml(write_spec_yaml(run)) == run


def test_whoever_has_a_role_may_fail(tmp_path: Path) -> None:
    network = "network: {sites: {here: {hosts: [s, w1, idle]}}, server: s, workers: [w1], roles: {gg: idle}}\n"
    text = network + FILE[FILE.index("workload") :] + "failures: {idle: 1 s}\n"
    assert expand(load(tmp_path, text))[0].failures == (Failure("idle", 1.0),)
    (fault,) = faults(tmp_path, text.replace(", roles: {gg: idle}", ""))
    assert fault.startswith('small.yaml:7: failures.idle: "idle" is not a host that takes part.')


def test_a_role_of_no_algorithm_here_may_be_placed(tmp_path: Path) -> None:
    text = FILE.replace("10 ms}\n", "10 ms}\n  roles: {gg: w2}\n")
    assert load(tmp_path, text).network.network.hosts_of("gg") == ("w2",)


def test_algorithms_in_every_form(tmp_path: Path) -> None:
    entries = (
        "\n- ssgd\n- fedavg: {local_steps: 5, fraction: 1, groups: [1, 2], patience: null}"
        "\n- {use: fedavg, label: fedavg-50, local_steps: 50}\n- gossip:"
    )
    assert load(tmp_path, FILE.replace("[ssgd]", entries)).algorithms == (
        AlgorithmChoice("ssgd", "ssgd"),
        AlgorithmChoice("fedavg", "fedavg", {"local_steps": 5, "fraction": 1.0, "groups": [1, 2], "patience": None}),
        AlgorithmChoice("fedavg", "fedavg-50", {"local_steps": 50}),
        AlgorithmChoice("gossip", "gossip"),
    )


def test_jitter_and_named_network(tmp_path: Path) -> None:
    text = FILE.replace("40 ms}", "40 ms, jitter: {lognormal: 0.1}}")
    assert load(tmp_path, text).compute.jitter == Jitter("lognormal", 0.1)
    named = "network: two-racks\n" + FILE[FILE.index("workload") :]
    assert len(load(tmp_path, named).network.network.workers) == 8


def a_run(folder: Path) -> RunSpec:
    text = FILE.replace("[ssgd]", "[{fedavg: {groups: [1, 2], patience: null, warm: true}}]")
    return expand(load(folder, text.replace("delay: 10 ms", "delay: 10 us, jitter: 1 us, queue: 64 kB")))[0]


def test_a_run_survives_its_spec_yaml(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert read_spec_yaml(write_spec_yaml(run)) == run


AWKWARD = st.sampled_from(
    ["no", "1..3", "012", "1e3", "null", "a: b", "# x", " x ", "\u00fc", "'", "-", "x\ny", "1_0", "\x85", "a\u2028"]
)


@UNHURRIED
@given(st.floats(min_value=0, allow_infinity=False), st.integers(0, 2**63), AWKWARD | st.text(max_size=20))
def test_numbers_and_words_survive_spec_yaml(
    tmp_path_factory: pytest.TempPathFactory, number: float, seed: int, word: str
) -> None:
    run = a_run(tmp_path_factory.getbasetemp())
    choice = AlgorithmChoice(word, word, {"x": number, "y": [seed, word], "z": {"k": number}})
    run = replace(run, algorithm=choice, seed=seed, compute=replace(run.compute, step=number))
    assert read_spec_yaml(write_spec_yaml(run)) == run


def test_a_spec_yaml_of_another_version(tmp_path: Path) -> None:
    text = write_spec_yaml(a_run(tmp_path))
    for broken in (text.replace("momentum:", "momenta:"), "", "[1]", text.replace("seed: 1\n", "")):
        with pytest.raises(SpecError, match=r"spec\.yaml:1: is not a run of this version"):
            read_spec_yaml(broken)
