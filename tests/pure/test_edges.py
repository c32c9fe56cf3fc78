"""What the command says to wrong input, word for word: the place, the fault, the remedy; and that it writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.runtime.finder import algorithm_names
from tests.pure.test_cli import EXPERIMENT, command

IDEA = '''\
"""An idea."""

from dataclasses import dataclass

from testbed.api import Algorithm, Node


@dataclass(frozen=True)
class Hyper:
    beta: float = 0.9


class Idea(Algorithm[Hyper]):
    Hyper = Hyper

    async def worker(self, node: Node) -> None:
        pass
'''
DELAY = "delay: 10 ms}"
"""Line 2, the network's, ends behind it."""
SHAPE = 'write it like "{monitor: w1}", or "{monitor: [w1, w2]}" for several.'
HOSTS = "Known: server, w1, w2."
KEYS = "Known: algorithms, compute, engine, failures, horizon, name, network, seeds, sim, workload."
ALGORITHMS = f"Known: {', '.join(algorithm_names())}."
ENGINES = "Known: sim, virtual."
RULE = 'use 30 characters or fewer: small letters, digits and "_", a letter first'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of somebody: an algorithm, a broken one, an experiment."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "idea.py").write_text(IDEA)
    (tmp_path / "broken.py").write_text(IDEA.replace("class Idea(", "class Idea(("))
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    return tmp_path


def refused(folder: Path, *arguments: str) -> str:
    """What a command says that ends with 2 and leaves everything as it was."""
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    done = command(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before
    return done.stderr.replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (DELAY, f"{DELAY}, roles: w1", f'2: network.roles: "w1" does not say where roles run; {SHAPE}'),
        (DELAY, f"{DELAY}, roles: {{monitor: }}", f"2: network.roles.monitor: no host cannot run a role; {SHAPE}"),
        (DELAY, f"{DELAY}, roles: {{gg: [w1, W2]}}",
         f'2: network.roles.gg[1]: "W2" is not a host of this network; did you mean "w2"? {HOSTS}'),
        (DELAY, f"{DELAY}, roles: {{gg: [w1, w1]}}", '2: network.roles.gg[1]: "w1" stands here twice; keep one.'),
        (DELAY, f"{DELAY}, roles: {{worker: w1}}",
         '2: network.roles.worker: is not placed here; the key "workers" of the network says who trains.'),
        (DELAY, f"{DELAY}, roles: {{class: w1}}",
         '2: network.roles.class: "class" cannot name a role; write the name of its method, like "monitor".'),
        (DELAY, f"{DELAY}, role: {{gg: w1}}", '2: network.role: "role" is not a key here; did you mean "roles"? '
         "Known: lan, links, name, preset, roles, tcp, workers."),
        ("{preset: star, workers: 2, links: {rate: 10 Mbit/s, delay: 10 ms}}",
         "{sites: {a: {hosts: [s, w1]}}, server: [s, w1]}",
         "2: network.server: a list is not text; write one word."),
        ("seeds: 1..3", "failures: {w1: }", '6: failures.w1: nothing is not a duration. Write it like "20 ms".'),
        ("seeds: 1..3", "failures: {w1: 5 s, W2: 6 s}",
         f'6: failures.W2: "W2" is not a host that takes part; did you mean "w2"? {HOSTS}'),
        ("seeds: 1..3", "failures: {w1: -1 s}", '6: failures.w1: "-1 s" is negative. Write it like "20 ms".'),
        ("seeds: 1..3", "failures:", '6: failures: has no value; write it like "failures: {w3: 30 s}".'),
        ("seeds: 1..3", "failure: {w1: 1 s}",
         f'6: failure: "failure" is not a key here; did you mean "failures"? {KEYS}'),
        ("seeds: 1..3", "sim: false", "6: sim: false is not a mapping; write it like {slow_start: false}."),
        ("seeds: 1..3", 'sim: {slow_start: "no"}', '6: sim.slow_start: "no" is neither true nor false.'),
        ("seeds: 1..3", "simm: {}", f'6: simm: "simm" is not a key here; did you mean "sim"? {KEYS}'),
        ("seeds: 1..3", "engine: Sim", f'6: engine: "Sim" is not known here; did you mean "sim"? {ENGINES}'),
        ("seeds: 1..3", "engine: 3", f"6: engine: 3 is not known here. {ENGINES}"),
        ("seeds: 1..3", "engine: [sim]", f"6: engine: a list is not known here. {ENGINES}"),
        ("seeds: 1..3", "engine:", '6: engine: has no value; write it like "engine: virtual".'),
        ("[ssgd", "[./idee.py", '5: algorithms[0]: there is no file idee.py; check the path. Did you mean "idea.py"?'),
        ("[ssgd", "[./idea",
         '5: algorithms[0]: there is no file idea; check the path. The file is written "./idea.py".'),
        ("[ssgd", "[idea",
         f'5: algorithms[0]: "idea" is not an algorithm. {ALGORITHMS} The file is written "./idea.py".'),
        ("[ssgd", "[fedavg.py",
         "5: algorithms[0]: there is no file fedavg.py; check the path. "
         'The algorithm of the project is written "fedavg".'),
        ("[ssgd", "[./sub", "5: algorithms[0]: sub is a folder; name a file in it."),
        ("[ssgd", "[./broken.py", "5: algorithms[0]: broken.py:13: is not Python: invalid syntax; correct that line."),
        ("[ssgd", "[./idea.py: {bta: 1}",
         '5: algorithms[0]["./idea.py"].bta: "bta" is not a hyper-parameter; did you mean "beta"? Known: beta.'),
    ],
)  # fmt: skip
def test_a_key_of_the_file(folder: Path, old: str, new: str, message: str) -> None:
    assert old in EXPERIMENT
    (folder / "x.yaml").write_text(EXPERIMENT.replace(old, new, 1))
    assert refused(folder, "run", "x.yaml", "--engine", "sim") == f"x.yaml:{message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "x.yaml", "--engine", "SIM"], f'"SIM" is not an engine; did you mean "sim"? {ENGINES}'),
        (["check", "x.yaml", "--engine", "vitual"], f'"vitual" is not an engine; did you mean "virtual"? {ENGINES}'),
        (["report", "x.yaml", "--engine", "ns3"], f'"ns3" is not an engine. {ENGINES}'),
    ],
)
def test_an_engine_that_there_is_not(folder: Path, arguments: list[str], message: str) -> None:
    said = refused(folder, *arguments).splitlines()
    assert said[-1] == f"Error: Invalid value for '--engine': {message}"
    assert len([line for line in said if line.startswith("Error")]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "algorithm", "MyIdea"], f'"MyIdea" cannot name an algorithm; {RULE}, like my_idea'),
        (["new", "algorithm", "next-one.py"], f'"next-one.py" cannot name an algorithm; {RULE}, like next_one'),
        (["new", "algorithm", "SSGD"], f'"SSGD" cannot name an algorithm; {RULE}, like my_idea'),
        (["new", "algorithm", "class"],
         '"class" cannot name an algorithm, as it is a word of Python; take "class_idea"'),
        (["new", "algorithm", "idea"], "idea.py exists already; take another name, or another --folder"),
        (["algorithms", "./idee.py"], 'there is no file idee.py; check the path. Did you mean "idea.py"?'),
        (["algorithms", "./broken.py"], "broken.py:13: is not Python: invalid syntax; correct that line"),
        (["algorithms", "sub/"], "sub is a folder; name a file in it"),
    ],
)  # fmt: skip
def test_an_algorithm_that_there_is_not_or_cannot_be(folder: Path, arguments: list[str], message: str) -> None:
    assert refused(folder, *arguments) == f"{message}\n"
