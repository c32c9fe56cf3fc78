"""The awkward cases of every verb, from the same scenes on both engines."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.api import MomentumSGD
from testbed.engines.sim.engine import SimEngine
from testbed.engines.virtual.engine import Limits, VirtualEngine
from testbed.network.model import Channel, Placement
from testbed.record.folder import RunFolder
from testbed.spec.run import AlgorithmChoice, Compute, Failure, Horizon, RunSpec, Workload
from testbed.workload.objective import Objective
from tests.virtual.small import CLEAN, small, star

HERE = Path(__file__).parent


def scenes(file: str, seconds: float, hyper: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    """A run of the scenes in a file of this folder."""
    choice = AlgorithmChoice(file, file, hyper or {}, str(HERE / f"{file}.py"))
    changes.setdefault("compute", Compute(0.02, (1.0, 1.0, 2.0)))
    changes.setdefault("workload", Workload("digits", "mlp", batch=16, lr=0.1, momentum=0.9))
    return dataclasses.replace(small(horizon=Horizon(seconds, seconds, 0.8), **changes), algorithm=choice)


def the_runs() -> dict[str, RunSpec]:
    slow = Channel(5e6, 0.040)
    four = star(Channel(20e6, 0.010), Channel(10e6, 0.020), slow, slow)
    both = dataclasses.replace(CLEAN, server="w2")
    monitored = dataclasses.replace(CLEAN, roles=(Placement("monitor", ("w1",)),))
    dying = (Failure("w3", 3), Failure("w4", 6))
    runs = {
        "messages": scenes("awkward_messages", 170, network=monitored),
        "sharing": scenes("awkward_sharing", 290),
        "deaths": scenes("awkward_deaths", 20, network=four, compute=Compute(0.02), failures=dying),
        "serving": small("ssgd", network=both),
        "server_dies": small("ssgd", network=both, failures=(Failure("w2", 3),)),
        "freed": scenes("awkward_endings", 5, {"how": "freed"}, failures=(Failure("w3", 2),)),
        "standstill": scenes("awkward_endings", 5, {"how": "standstill"}),
    }
    return runs | {how: scenes("awkward_endings", 5, {"how": how}) for how in UNCAUGHT}


UNCAUGHT = {
    "dropped": "DeadlinePassed: w2 waited 1 s for 'never' from anyone",
    "held": "KeyError: 'mine'",
    "left_behind": "KeyError: 'mine'",
    "taking": "ValueError: w2 cannot take this",
    "cancelled": "CancelledError: an activity that was awaited had been cancelled",
}
"""What goes wrong in a scene of that name, as its run's reason for failing tells it."""


@pytest.fixture(scope="module", params=["sim", "virtual"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """All runs on one engine, side by side."""
    engine, results = request.param, tmp_path_factory.mktemp("results")
    work = []
    for name, run in the_runs().items():
        run = dataclasses.replace(run, engine=engine, algorithm=dataclasses.replace(run.algorithm, label=name))
        work.append((run, RunFolder.of(results, run)))
    if engine == "sim":
        SimEngine(lambda progress: None).run(work)
    else:
        kernel = request.getfixturevalue("kernel")
        VirtualEngine(kernel, lambda progress: None, limits=Limits(whole=240, silence=120)).run(work)
    return {name: folder for name, (_, folder) in zip(the_runs(), work, strict=True)}


def notes(folder: RunFolder) -> pd.DataFrame:
    assert folder.failure is None, folder.failure
    return pd.read_parquet(folder.table("notes"))


def all_well(folder: RunFolder, names: dict[str, str]) -> None:
    """Every scene was got through by exactly these nodes, and nobody noted any trouble."""
    found = notes(folder)
    trouble = found[found["value"] == 0]
    assert (trouble["node"] + ": " + trouble["name"]).tolist() == []
    for scene, nodes in names.items():
        assert sorted(found[found["name"] == scene]["node"]) == nodes.split(), scene


def test_messages(folders: dict[str, RunFolder]) -> None:
    names = (
        "lengths", "oneself", "late_vectors", "late_words", "a_late_broadcast", "deadlines", "activities", "computing",
    )  # fmt: skip
    all_well(folders["messages"], {**dict.fromkeys(names, "w1 w2 w3"), "all done": "monitor@w1"})


def test_batches_and_momentum_are_what_one_process_computes(folders: dict[str, RunFolder]) -> None:
    found = notes(folders["messages"])
    one = Objective(the_runs()["messages"].workload, 3, seed=1)
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


def test_sharing(folders: dict[str, RunFolder]) -> None:
    names = ("given_up", "crossing", "a_chain", "everyone_asks", "replaced", "groups_that_fail", "at_the_same_moment")
    all_well(folders["sharing"], dict.fromkeys(names, "w1 w2 w3"))


def test_deaths(folders: dict[str, RunFolder]) -> None:
    all_well(folders["deaths"], dict.fromkeys(("w3 died", "w4 died", "the rest"), "w1 w2"))


@pytest.mark.parametrize("how", UNCAUGHT)
def test_an_error_that_nobody_catches_ends_the_run(folders: dict[str, RunFolder], how: str) -> None:
    assert UNCAUGHT[how] in (folders[how].failure or "no failure")


def test_a_death_frees_those_who_wait_in_a_circle(folders: dict[str, RunFolder]) -> None:
    found = notes(folders["freed"])
    assert found["node"].tolist() == ["w1", "w2"] and (found["name"] == "freed").all()
    # w3's end at 2 s is 50 ms from w1, whose word takes a round trip of 60 ms to connect and 30 ms to w2.
    assert found["time"].tolist() == pytest.approx([2.05, 2.14], abs=2e-3)


def test_a_circle_that_nothing_can_free_ends_at_once_or_with_the_horizon(
    folders: dict[str, RunFolder], request: pytest.FixtureRequest
) -> None:
    if "sim" in request.node.callspec.id:  # it alone knows that nothing is under way
        reason = folders["standstill"].failure or ""
        assert "Deadlock: deadlock at 0 s: w1 waits for 'never' from w3; w2 waits for 'never' from w1" in reason
        return
    found = notes(folders["standstill"])
    assert sorted(found["node"]) == ["w1", "w2", "w3"] and (found["name"] == "begun").all()


def test_a_host_that_serves_and_trains(folders: dict[str, RunFolder]) -> None:
    folder = folders["serving"]
    assert folder.failure is None, folder.failure
    metrics, sent = pd.read_parquet(folder.table("metrics")), pd.read_parquet(folder.table("messages"))
    one = Objective(the_runs()["serving"].workload, 3, seed=1)
    model, optimiser, losses = one.initial.copy(), MomentumSGD(), []
    for version in range(int(metrics["version"].max()) + 1):
        losses.append(one.evaluate(model, 0, 359)[0] / 359)
        together = np.concatenate([one._batches[rank][version] for rank in range(3)])
        optimiser.step(model, one.gradient_of(model, together)[0], one.workload.lr)
    assert len(metrics) >= 5 and metrics["version"].max() > 3
    for row in metrics.itertuples():
        assert row.loss == pytest.approx(losses[row.version], abs=1e-4)
    # What stays on the host takes no time; to w3 it takes the 60 ms of the way at least.
    taken = sent["arrived"] - sent["sent"]
    own = (sent["source"] == "server@w2") & (sent["target"] == "w2")
    assert own.sum() > 3 and taken[own].max() < 0.002
    assert taken[(sent["source"] == "server@w2") & (sent["target"] == "w3")].min() > 0.060


def test_a_host_that_dies_takes_all_its_nodes_along(folders: dict[str, RunFolder]) -> None:
    assert "PeerLost: server@w2 is lost" in (folders["server_dies"].failure or "no failure")
