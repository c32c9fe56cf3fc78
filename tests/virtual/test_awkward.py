"""The awkward cases of every verb, from the same scenes on both engines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.engines.sim.engine import SimEngine
from testbed.network.model import Channel, Placement
from testbed.record.folder import RunFolder
from testbed.spec.run import AlgorithmChoice, Compute, Failure, Horizon, RunSpec, Workload
from testbed.workload.objective import Objective
from tests.virtual.small import CLEAN, carry_out, small, star

HERE = Path(__file__).parent
CarryOut = Callable[[str, dict[str, RunSpec]], dict[str, RunFolder]]


def scenes(file: str, seconds: float, hyper: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    """A run of the scenes in a file of this folder."""
    choice = AlgorithmChoice(file, file, hyper or {}, str(HERE / f"{file}.py"))
    changes.setdefault("compute", Compute(0.02, (1.0, 1.0, 2.0)))
    changes.setdefault("workload", Workload("digits", "mlp", batch=16, lr=0.1, momentum=0.9))
    return dataclasses.replace(small(horizon=Horizon(seconds, seconds, 0.8), **changes), algorithm=choice)


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunFolder]:
    """Carries out a run on the engine that is asked for; once for all tests that ask for the same."""
    results = tmp_path_factory.mktemp("results")

    @cache
    def carried_out(make: Callable[[], RunSpec], engine: str) -> RunFolder:
        run = dataclasses.replace(make(), engine=engine)
        place = results / make.__name__ / engine
        if engine == "virtual":
            (folder,), _ = carry_out(request.getfixturevalue("kernel"), place, [run])
        else:
            folder = RunFolder.of(place, run)
            SimEngine(lambda progress: None).run([(run, folder)])
        return folder

    return carried_out


both_engines = pytest.mark.parametrize("engine", ["sim", "virtual"])


def notes(folder: RunFolder) -> pd.DataFrame:
    assert folder.failure is None, folder.failure
    return pd.read_parquet(folder.table("notes"))


def all_well(folder: RunFolder, names: dict[str, str]) -> None:
    """Every scene was got through by exactly these nodes, in their order, and nobody noted any trouble."""
    found = notes(folder)
    trouble = found[(found["value"] == 0)]
    assert trouble.empty, "\n".join(
        f"{row.node}: {row.name_}" for row in trouble.rename(columns={"name": "name_"}).itertuples()
    )
    for scene, nodes in names.items():
        assert sorted(found[found["name"] == scene]["node"]) == nodes.split(), scene


def messages() -> RunSpec:
    monitor = dataclasses.replace(CLEAN, roles=(Placement("monitor", ("w1",)),))
    return scenes("awkward_messages", 170, network=monitor)


@both_engines
def test_messages(outcome: Callable[..., RunFolder], engine: str) -> None:
    names = (
        "lengths",
        "oneself",
        "late_vectors",
        "late_words",
        "a_late_broadcast",
        "deadlines",
        "activities",
        "computing",
    )
    all_well(outcome(messages, engine), {**dict.fromkeys(names, "w1 w2 w3"), "all done": "monitor@w1"})


@both_engines
def test_batches_and_momentum_are_what_one_process_computes(outcome: Callable[..., RunFolder], engine: str) -> None:
    found = notes(outcome(messages, engine))
    one = Objective(messages().workload, 3, messages().seed)
    initial = one.initial.copy()
    for rank, worker in enumerate(("w1", "w2", "w3")):
        expected: dict[str, np.ndarray] = {"half": one.gradient(initial, rank, 0, 8)[0].copy()}
        expected["first"] = one.train(initial, rank, 8, 2, 4)[0].copy()
        # 8 + 2 * 4 + 4 * 4 samples are taken; five steps with one momentum, then one that starts from rest.
        expected["on"] = one.train(initial, rank, 32, 5)[0].copy()
        expected["anew"] = one.train(expected["on"], rank, 32 + 5 * 16, 1)[0].copy()
        for name, vector in expected.items():
            norm = float(np.linalg.norm(vector.astype(np.float64) - initial))
            noted = found[(found["name"] == f"norm of {name}") & (found["node"] == worker)]["value"]
            assert noted.item() == pytest.approx(norm, rel=1e-9), (worker, name)


def sharing() -> RunSpec:
    return scenes("awkward_sharing", 290)


@both_engines
def test_sharing(outcome: Callable[..., RunFolder], engine: str) -> None:
    names = ("given_up", "crossing", "a_chain", "everyone_asks", "replaced", "groups_that_fail", "at_the_same_moment")
    all_well(outcome(sharing, engine), dict.fromkeys(names, "w1 w2 w3"))


def deaths() -> RunSpec:
    slow = Channel(5e6, 0.040)
    four = star(Channel(20e6, 0.010), Channel(10e6, 0.020), slow, slow)
    return scenes(
        "awkward_deaths", 20, network=four, compute=Compute(0.02), failures=(Failure("w3", 3), Failure("w4", 6))
    )


@both_engines
def test_deaths(outcome: Callable[..., RunFolder], engine: str) -> None:
    all_well(outcome(deaths, engine), dict.fromkeys(("w3 died", "w4 died", "the rest"), "w1 w2"))
