"""What is wrong with an experiment file: one message for each fault, in the order of the lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.spec.expand import expand
from testbed.spec.experiment import load_experiment
from testbed.spec.faults import SpecError
from tests.pure.small_experiment import CATALOGUE, FILE, UNHURRIED, faults, load


@pytest.mark.parametrize(
    ("old", "new", "start", "words"),
    [
        (
            "10 Mbit/s",
            "10 Mbt/s",
            "4: network.links.rate: ",
            '"10 Mbt/s" is not a rate; did you mean "Mbit/s"?',
        ),
        ("digits", "digit", "5: workload.data: ", '"digit" is not a data set; did you mean "digits"?'),
        ("mlp", "mpl", "5: workload.model: ", '"mpl" is not a model; did you mean "mlp"?'),
        ("0.1}", "0.1, partition: idd}", "5: workload.partition: ", 'did you mean "iid"?'),
        ("batch: 32", "batch: 0", "5: workload.batch: ", "0 must be 1 or more."),
        ("batch: 32", 'batch: "32"', "5: workload.batch: ", '"32" is text; write it without quotes: 32.'),
        ("batch: 32", "batch: 1.5", "5: workload.batch: ", "1.5 is not a whole number."),
        ("batch: 32", "batch: true", "5: workload.batch: ", "true is not a whole number."),
        ("batch: 32", "bach: 32", "5: workload.bach: ", '"bach" is not a key here; did you mean "batch"?'),
        ("lr: 0.1", "lr: 0", "5: workload.lr: ", "0 must be more than 0."),
        ("lr: 0.1", "lr: .inf", "5: workload.lr: ", "inf is not a finite number."),
        ("0.1}", "0.1, momentum: 1}", "5: workload.momentum: ", "1 must be less than 1."),
        (
            "40 ms",
            "40",
            "6: compute.step: ",
            '40 has no unit, so it is not a duration. Write it like "20 ms".',
        ),
        ("40 ms", "0 ms", "6: compute.step: ", "must be more than 0"),
        ("40 ms", "40 kB", "6: compute.step: ", '"40 kB" is a size, not a duration.'),
        ("40 ms}", "40 ms, slowdown: [1]}", "6: compute.slowdown: ", "1 values for 2 workers"),
        ("40 ms}", "40 ms, slowdown: {w3: 2}}", "6: compute.slowdown.w3: ", '"w3" is not a worker'),
        ("40 ms}", "40 ms, slowdown: [1, 0]}", "6: compute.slowdown[1]: ", "0 is not a factor"),
        (
            "40 ms}",
            "40 ms, jitter: {lognorm: 1}}",
            "6: compute.jitter.lognorm: ",
            'did you mean "lognormal"?',
        ),
        ("40 ms}", "40 ms, jitter: big}", "6: compute.jitter: ", '"big" is not a jitter'),
        ("[ssgd]", "[sgd]", "7: algorithms[0]: ", '"sgd" is not an algorithm; did you mean "ssgd"?'),
        ("[ssgd]", "[]", "7: algorithms: ", "is not a list of algorithms"),
        ("[ssgd]", "[ssgd, ssgd]", "7: algorithms[1]: ", 'the label "ssgd" is taken'),
        ("[ssgd]", "[{use: ssgd, label: a/b}]", "7: algorithms[0].label: ", '"a/b" cannot name a folder'),
        ("[ssgd]", "[{ssgd: {x: 1}}]", "7: algorithms[0].ssgd.x: ", '"x" is not a hyper-parameter'),
        ("[ssgd]", "[{fedavg: 3}]", "7: algorithms[0].fedavg: ", "3 is not a mapping of settings"),
        (
            "[ssgd]",
            "[{fedavg: {local_step: 3}}]",
            "7: algorithms[0].fedavg.local_step: ",
            'mean "local_steps"?',
        ),
        (
            "[ssgd]",
            '[{fedavg: {local_steps: "3"}}]',
            "7: algorithms[0].fedavg.local_steps: ",
            "without quotes: 3",
        ),
        (
            "[ssgd]",
            "[{fedavg: {local_steps: -1}}]",
            "7: algorithms[0].fedavg.local_steps: ",
            "must be 0 or more",
        ),
        ("[ssgd]", "[{fedavg: {fraction: 2}}]", "7: algorithms[0].fedavg.fraction: ", "2 must be 1 or less"),
        ("[ssgd]", "[{fedavg: {warm: 1}}]", "7: algorithms[0].fedavg.warm: ", "1 is neither true nor false"),
        (
            "[ssgd]",
            "[{fedavg: {groups: [1, a]}}]",
            "7: algorithms[0].fedavg.groups[1]: ",
            "not a whole number",
        ),
        ("[ssgd]", "[{fedavg: {local_steps: 13}}]", "7: algorithms[0].fedavg: ", "bring bad luck"),
        ("[1]", "[1, 1]", "8: seeds[1]: ", "seed 1 stands here twice"),
        ("[1]", "[1, -1]", "8: seeds[1]: ", "-1 is not a seed"),
        ("[1]", "3..1", "8: seeds: ", '"3..1" is no range'),
        ("[1]", "1..99999999999", "8: seeds: ", "is no range of 1 to 10000 seeds"),
        ("[1]", "[]", "8: seeds: ", "holds no seed"),
        (
            "evaluate_every: 2 s",
            "evaluate_every: 2 min",
            "9: horizon.evaluate_every: ",
            "120 s is longer than",
        ),
        ("80 %", "0.8", "9: horizon.target: ", '0.8 has no unit. Write "80 %"'),
        (
            "80 %}",
            "80 %}\nengine: vitual",
            "10: engine: ",
            '"vitual" is not known here; did you mean "virtual"?',
        ),
        ("80 %}", "80 %}\nsim: {slow_strat: true}", "10: sim.slow_strat: ", 'did you mean "slow_start"?'),
        ("80 %}", "80 %}\nsim: {slow_start: 1}", "10: sim.slow_start: ", "1 is neither true nor false."),
        ("80 %}", "80 %}\nsim:", "10: sim: ", 'has no value; write it like "sim: {slow_start: false}".'),
        ("80 %}", "80 %}\nfailures: {w11: 1 s}", "10: failures.w11: ", 'takes part; did you mean "w1"?'),
        ("80 %}", "80 %}\nfailures: {w2: 1}", "10: failures.w2: ", "1 has no unit, so it is not a duration."),
        ("80 %}", "80 %}\nfailures: {w2: 0 s}", "10: failures.w2: ", "0 s must be more than 0 s and less than 60 s"),
        ("80 %}", "80 %}\nfailures: {w2: 1 min}", "10: failures.w2: ", "60 s must be more than 0 s and less than 60 s"),
        ("80 %}", "80 %}\nfailures: [w2]", "10: failures: ", "write it like {w3: 30 s}."),
        ("10 ms}\n", "10 ms}\n  roles: {moniter: w1}\n", "5: network.roles.moniter: ", 'did you mean "monitor"?'),
        ("10 ms}\n", "10 ms}\n  roles: {gg: w7}\n", "5: network.roles.gg: ", '"w7" is not a host of this network'),
        ("80 %}", "80 %}\nname: a b", "10: name: ", '"a b" cannot name a folder'),
        ("80 %}", "80 %}\nname: 7", "10: name: ", '7 is not text; write it in quotes: "7".'),
        ("80 %}", "80 %}\nsede: 7", "10: sede: ", '"sede" is not a key here; did you mean "seeds"?'),
        ("80 %}", "80 %}\nseeds: 7", "10: seeds: ", "stands here a second time, after line 8"),
        (
            "compute: {step: 40 ms}\n",
            "",
            "1: compute: ",
            'is missing; write it like "compute: {step: 40 ms}".',
        ),
        (
            "compute: {step: 40 ms}",
            "compute: fast",
            "6: compute: ",
            '"fast" is not a mapping; write it like {step',
        ),
        ("compute: {step: 40 ms}", "compute:", "6: compute: ", "has no value; write it like"),
    ],
)
def test_one_message_for_one_fault(tmp_path: Path, old: str, new: str, start: str, words: str) -> None:
    assert old in FILE
    (fault,) = faults(tmp_path, FILE.replace(old, new, 1))
    assert fault.startswith(f"small.yaml:{start}")
    assert words in fault


def test_an_algorithm_with_a_server_needs_one_in_the_network(tmp_path: Path) -> None:
    text = "network: {sites: {here: {hosts: [w1, w2]}}}\n" + FILE[FILE.index("workload") :]
    (fault,) = faults(tmp_path, text.replace("[ssgd]", "[gossip, ssgd]"))
    assert fault.startswith('small.yaml:4: algorithms[1]: "ssgd" needs a server')
    assert load(tmp_path, text.replace("[ssgd]", "[gossip]")).network.network.server is None


def test_all_faults_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = FILE.replace("80 %", "80").replace("10 Mbit/s", "10").replace("[ssgd]", "[sgd, {fedavg: {a: 1, b: 2}}]")
    text = text.replace("lr: 0.1", "lr: -1, lr: 3") + "[1]: 2\n"
    lines = [fault.split(" ")[0] for fault in faults(tmp_path, text)]
    assert lines[:3] == ["small.yaml:4:", "small.yaml:5:", "small.yaml:5:"]
    assert lines[3:] == ["small.yaml:7:", "small.yaml:7:", "small.yaml:7:", "small.yaml:9:", "small.yaml:10:"]


def test_faults_of_a_named_network_come_last_and_keep_their_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("preset: star\nworkers: x\nlinks: {rate: 1 Mbit/s, delay: 1 ms}\n")
    path = tmp_path / "small.yaml"
    path.write_text(f"network: mine\nengine: sin\n{FILE[FILE.index('workload') :]}")
    with pytest.raises(SpecError) as refused:
        load_experiment(path, CATALOGUE, [tmp_path])
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"{path}:2: engine: ")
    assert second == f'{tmp_path}/mine.yaml:2: workers: "x" is not a whole number.'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; write the keys network, workload"),
        ("# only a comment\n", "is empty"),
        ("- 1\n", "holds a list"),
        ("hello", 'holds "hello"'),
    ],
)
def test_files_without_keys(tmp_path: Path, text: str, words: str) -> None:
    (fault,) = faults(tmp_path, text)
    assert fault.startswith("small.yaml:1: ")
    assert words in fault


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is a folder"):
        load_experiment(tmp_path, CATALOGUE)
    with pytest.raises(SpecError, match="no such file"):
        load_experiment(tmp_path / "absent.yaml", CATALOGUE)


@UNHURRIED
@given(st.data())
def test_whatever_is_put_somewhere_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    odd = [
        "~",
        "[]",
        "{}",
        "[[1]]",
        "{a: {b: 1}}",
        "-1",
        "1e400",
        ".nan",
        "{}{",
        "true",
        "'{x}'",
        "!!binary aaa",
        "0",
    ]
    lines = FILE.splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    key, colon, value = lines[number].partition(data.draw(st.sampled_from([": ", ", ", ":"])))
    lines[number] = key + colon + data.draw(st.sampled_from([*odd, value + " x"]))
    folder = tmp_path_factory.mktemp("odd")
    try:
        expand(load(folder, "\n".join(lines)))
    except SpecError as error:
        assert all(fault.file.endswith("small.yaml") and fault.line for fault in error.faults)
