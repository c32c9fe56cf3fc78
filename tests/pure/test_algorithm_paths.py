"""Algorithms from files outside the project: what an experiment may write, and what is said when it cannot be."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.record.environment import algorithm_digest, environment
from testbed.record.folder import RunFolder
from testbed.runtime.finder import NoSuchAlgorithm, catalogue, find_algorithm, make_algorithm
from testbed.spec.expand import expand
from testbed.spec.experiment import Experiment, load_experiment
from testbed.spec.faults import SpecError
from testbed.spec.run import AlgorithmChoice
from testbed.spec.spec_yaml import read_spec_yaml, write_spec_yaml

EXPERIMENT = """\
network: {preset: star, workers: 2, links: {rate: 10 Mbit/s, delay: 10 ms}}
workload: {data: digits, model: softmax, batch: 16, lr: 0.1}
compute: {step: 20 ms}
horizon: {time: 10 s, evaluate_every: 1 s, target: 90 %}
algorithms:
"""

IDEA = '''\
"""An idea."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt

from testbed.api import Algorithm, Node


@dataclass(frozen=True)
class Inner:
    depth: float = 1.0


@dataclass(frozen=True)
class Hyper:
    beta: Annotated[float, Ge(0), Lt(1)] = 0.9
    groups: tuple[tuple[int, ...], ...] = ()
    names: frozenset[str] = frozenset()
    pair: tuple[int, float] | None = None
    bounds: dict[str, float] | None = None
    kind: Literal["a", "b"] = "a"
    inner: Inner = Inner()
    open: int | float | None = None
    either: str | tuple[int, ...] = ""


class Idea(Algorithm[Hyper]):
    """Nothing much."""

    Hyper = Hyper
    roles = ("monitor",)

    async def monitor(self, node: Node) -> None:
        node.note("beat", 1)

    async def worker(self, node: Node) -> None:
        node.note("beat", 1)
'''


def load(folder: Path, entries: str) -> Experiment:
    (folder / "x.yaml").write_text(EXPERIMENT + entries)
    return load_experiment(folder / "x.yaml", catalogue())


def fault(folder: Path, entries: str) -> str:
    with pytest.raises(SpecError) as refused:
        load(folder, entries)
    (only,) = refused.value.faults
    return str(only)


def at(path: Path, **hyper: Any) -> AlgorithmChoice:
    return AlgorithmChoice(path.stem, path.stem, hyper, str(path))


def test_a_path_counts_from_the_experiments_folder(tmp_path: Path) -> None:
    (tmp_path / "ideas").mkdir()
    (tmp_path / "here").mkdir()
    idea = tmp_path / "ideas" / "my_idea.py"
    idea.write_text(IDEA)
    (tmp_path / "here" / "my_idea.py").write_text(IDEA.replace("0.9", "0.8"))
    entries = "- ./my_idea.py\n- {use: ../ideas/my_idea.py, label: mine, beta: 0.5}\n- ssgd\n"
    found = load(tmp_path / "here", entries).algorithms
    assert found == (
        AlgorithmChoice("my_idea", "my_idea", {}, str(tmp_path / "here" / "my_idea.py")),
        AlgorithmChoice("my_idea", "mine", {"beta": 0.5}, str(idea)),
        AlgorithmChoice("ssgd", "ssgd"),
    )
    bare = load(tmp_path / "here", "- my_idea.py: {beta: 0}\n").algorithms
    assert bare == (AlgorithmChoice("my_idea", "my_idea", {"beta": 0.0}, str(tmp_path / "here" / "my_idea.py")),)


def test_a_run_says_which_file_it_is_of(tmp_path: Path) -> None:
    (tmp_path / "idea.py").write_text(IDEA)
    given = "{names: [b, a], pair: [1, 2], groups: [[1], [2, 3]], bounds: {w1: 3}, either: [1], kind: b}"
    (run,) = expand(load(tmp_path, f"- ./idea.py: {given}\n"))
    assert run.algorithm.hyper == {
        "names": ["a", "b"], "pair": [1, 2.0], "groups": [[1], [2, 3]], "bounds": {"w1": 3.0}, "either": [1],
        "kind": "b",
    }  # fmt: skip
    assert load(tmp_path, "- ./idea.py: {either: word}\n").algorithms[0].hyper == {"either": "word"}
    assert read_spec_yaml(write_spec_yaml(run)) == run


def test_hyper_parameters_get_the_types_that_they_declare(tmp_path: Path) -> None:
    path = tmp_path / "idea.py"
    path.write_text(IDEA)
    given = {
        "groups": [[1], [2, 3]],
        "names": ["a"],
        "bounds": {"w1": 3},
        "inner": {"depth": 2},
        "kind": "b",
        "either": [1],
    }
    made: Any = make_algorithm(at(path, beta=0, pair=[1, 2], open=4, **given))
    hyper = made.hyper
    assert (hyper.groups, hyper.names, hyper.pair) == (((1,), (2, 3)), frozenset({"a"}), (1, 2.0))
    assert (hyper.bounds, hyper.kind, hyper.open) == ({"w1": 3.0}, "b", 4)
    assert [type(v) for v in (hyper.beta, hyper.pair[1], hyper.bounds["w1"], hyper.inner.depth)] == [float] * 4
    assert type(hyper.open) is int
    assert hyper.either == (1,)
    plain: Any = make_algorithm(at(path, pair=None))
    assert plain.hyper == find_algorithm(at(path)).Hyper()


def test_files_of_one_name_do_not_meet_and_are_run_once(tmp_path: Path) -> None:
    paths = [tmp_path / name / "idea.py" for name in ("a", "b")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(IDEA.replace("0.9", f"0.{number}"))
    kinds = [find_algorithm(at(path)) for path in paths]
    assert [kind.Hyper().beta for kind in kinds] == [0.0, 0.1]
    paths[0].write_text("raise SystemExit")
    assert find_algorithm(at(paths[0])) is kinds[0]
    assert not list(tmp_path.rglob("__pycache__"))


def test_what_fails_leaves_no_module_behind(tmp_path: Path) -> None:
    path = tmp_path / "idea.py"
    path.write_text("x = 1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(NoSuchAlgorithm):
        find_algorithm(at(path))
    assert not [name for name in set(sys.modules) - before if str(path) in name]
    path.write_text(IDEA)
    assert find_algorithm(at(path)).__name__ == "Idea"


MONITOR = '    async def monitor(self, node: Node) -> None:\n        node.note("beat", 1)\n\n'


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("Nothing much.", 'Nothing"', ":32: is not Python: ", "correct that line"),
        ("import Ge, Lt\n", "import Ge, Lt\nimport nowhere\n", ":9: ", "no module nowhere to import; install it"),
        ("import Ge, Lt\n", "import Ge, Lt, Gee\n", ":8: ", "ImportError: cannot import name 'Gee'"),
        ("import Ge, Lt\n", "import Ge, Lt\nassert 1 > 2\n", ":9: ", "AssertionError"),
        ("import Ge, Lt\n", "import Ge, Lt\nraise SystemExit(3)\n", ":9: ", "SystemExit: 3"),
        ("(Algorithm[Hyper])", "", ": defines no subclasses of testbed.api.Algorithm", "should define one"),
        ("class Idea", "class Other(Algorithm[Hyper]):\n    pass\n\n\nclass Idea", ": defines 2", "Other, Idea"),
        (MONITOR, "", ': Idea has no method for the role "monitor"', 'write "async def monitor(self, node: Node)'),
        ("async def monitor", "def monitor", ": Idea.monitor is not a coroutine", "async def monitor"),
        ("async def worker", "def worker", ": Idea.worker is not a coroutine", "async def worker"),
        ("async def worker(self, node: Node)", "async def worker(self)", ": Idea.worker", "take the node alone"),
        ("def worker", "def other", ': Idea has no method for the role "worker"', "async def worker"),
        ('("monitor",)', '("monitor")', ": Idea.roles is 'monitor'", 'write a tuple of names, like roles = ('),
        ('("monitor",)', '("monitor", "worker")', ': Idea.roles names "worker"', "leave it out"),
        ('("monitor",)', '("monitor", "monitor")', ": Idea.roles is ", "each role once"),
        ("@dataclass(frozen=True)\nclass Hyper", "class Hyper", ": Idea.Hyper is not a dataclass", "frozen=True"),
        ("@dataclass(frozen=True)\nclass Hyper", "@dataclass\nclass Hyper", ": Idea.Hyper is not frozen", "frozen"),
        ("    Hyper = Hyper\n", "", ": Idea is an Algorithm[Hyper]", 'write "Hyper = Hyper" in it too'),
        ("    beta:", "    label: int = 1\n    beta:", ": Idea.Hyper.label", "rename it"),
        ("    beta:", "    gamma: Unknown = 1\n    beta:", ": Idea.Hyper has a type", "'Unknown' is not defined"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used(tmp_path: Path, old: str, new: str, place: str, words: str) -> None:
    assert IDEA.count(old) == 1
    path = tmp_path / "idea.py"
    path.write_text(IDEA.replace(old, new))
    message = fault(tmp_path, "- ssgd\n- ./idea.py: {}\n")
    assert message.startswith(f'{tmp_path}/x.yaml:7: algorithms[1]["./idea.py"]: {path}{place}')
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("entry", "place", "words"),
    [
        ("./absent.py", "", "there is no file {folder}/absent.py; check the path."),
        (
            "./ssgd.py",
            "",
            'there is no file {folder}/ssgd.py; check the path. The algorithm of the project is written "s',
        ),
        ("ideas/", "", "{folder}/ideas is a folder; name a file in it."),
        ("idea.py/x.py", "", "{folder}/idea.py/x.py cannot be read: Not a directory; check the path."),
        ("./" + "x" * 300 + ".py", "", "cannot be read: File name too long; check the path."),
        ('"./\\0.py"', "", "null byte"),
        ("./bytes.py", "", "{folder}/bytes.py"),
        (
            "./my idea.py",
            "",
            '"my idea" cannot name a folder; give the file a label, like {{use: {folder}/my idea.py, la',
        ),
        ("{use: ./idea.py, label: a/b}", ".label", '"a/b" cannot name a folder; use letters'),
        ("{use: ./idea.py, bata: 1}", ".bata", '"bata" is not a hyper-parameter; did you mean "beta"?'),
        ("{./idea.py: {beta: 1}}", '["./idea.py"].beta', "1 must be less than 1."),
        ("{./idea.py: 3}", '["./idea.py"]', "3 is not a mapping of settings"),
        ("{./odd.py: {}}", '["./odd.py"]', "its Hyper has a type that no file can write"),
        ("{use: 3}", "", '"3" is not an algorithm'),
    ],
)
def test_an_entry_that_is_wrong(tmp_path: Path, entry: str, place: str, words: str) -> None:
    (tmp_path / "ideas").mkdir()
    (tmp_path / "bytes.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "odd.py").write_text(IDEA.replace("    kind:", "    odd: Node | None = None\n    kind:"))
    for name in ("idea.py", "my idea.py"):
        (tmp_path / name).write_text(IDEA)
    message = fault(tmp_path, f"- {entry}\n")
    assert message.startswith(f"{tmp_path}/x.yaml:6: algorithms[0]{place}: ")
    assert words.format(folder=tmp_path) in message
    assert "\n" not in message


def test_one_label_for_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ssgd.py").write_text(IDEA)
    message = fault(tmp_path, "- ssgd\n- ./ssgd.py\n")
    assert (
        f'the label "ssgd" is taken by an entry above; give one of them another, like {{use: {tmp_path}/ss' in message
    )


def test_a_server_from_outside_needs_a_place(tmp_path: Path) -> None:
    (tmp_path / "idea.py").write_text(IDEA.replace("monitor", "server"))
    experiment = tmp_path / "x.yaml"
    text = EXPERIMENT.replace(
        "{preset: star, workers: 2, links: {rate: 10 Mbit/s, delay: 10 ms}}", "{sites: {a: {hosts: [w1]}}}"
    )
    experiment.write_text(text + "- ./idea.py\n")
    with pytest.raises(SpecError, match=r'algorithms\[0\]: "idea" needs a server'):
        load_experiment(experiment, catalogue())


def test_results_describe_an_algorithm_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "idea.py"
    path.write_text(IDEA)
    (run,) = expand(load(tmp_path, "- ./idea.py\n"))
    folder = RunFolder.of(tmp_path / "results", run)
    folder.begin(run, environment(None, run.algorithm))
    assert (folder.path / "algorithm.py").read_text() == IDEA
    assert folder.algorithm_digest() == hashlib.sha256(IDEA.encode()).hexdigest() == algorithm_digest(run.algorithm)
    path.write_text(IDEA + "\n")
    assert folder.algorithm_digest() != algorithm_digest(run.algorithm)
    own = replace(run, algorithm=AlgorithmChoice("ssgd", "ssgd"))
    folder.begin(own, environment(None, own.algorithm))
    assert not (folder.path / "algorithm.py").exists()
    root = Path(__file__).parents[2]
    assert folder.algorithm_digest() == hashlib.sha256((root / "algorithms" / "ssgd.py").read_bytes()).hexdigest()
    assert environment(None, own.algorithm)["kernel"] is None
    assert algorithm_digest(AlgorithmChoice("nothing", "nothing")) == ""
