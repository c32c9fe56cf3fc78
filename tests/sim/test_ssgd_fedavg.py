"""Invariants of SSGD and FedAvg, each derived from the papers' equations."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from algorithms.fedavg import FedAvg
from algorithms.fedavg import Hyper as FedAvgHyper
from algorithms.ssgd import SSGD
from testbed.api import NoHyper, weighted_mean
from testbed.spec.run import Workload
from testbed.workload.objective import Objective
from tests.sim.local import run_locally

WORKLOAD = Workload("digits", "mlp", batch=16, lr=0.1)


def objective(workers: int = 4, **changes: object) -> Objective:
    return Objective(dataclasses.replace(WORKLOAD, **changes), workers, seed=5)  # type: ignore[arg-type]


def joint_batch_sgd(workers: int, steps: int, momentum: float = 0.0) -> np.ndarray:
    """One process, one mini-batch made of all workers' mini-batches, float64 arithmetic around it."""
    one = objective(workers)
    model = one.initial.astype(np.float64)
    velocity = np.zeros_like(model)
    for step in range(steps):
        together = np.concatenate([one._batches[rank][step] for rank in range(workers)])
        gradient, _ = one.gradient_of(model.astype(np.float32), together)
        velocity = momentum * velocity + gradient
        model -= WORKLOAD.lr * velocity
    return model


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_ssgd_equals_one_process_with_the_joint_batch(momentum: float) -> None:
    nodes = run_locally(SSGD(NoHyper()), objective(momentum=momentum), versions=20)
    version, model = nodes["server"].snapshots[19]
    assert version == 20
    np.testing.assert_allclose(model, joint_batch_sgd(4, 20, momentum), rtol=0, atol=2e-5)


def test_ssgd_does_not_depend_on_who_comes_first() -> None:
    first = run_locally(SSGD(NoHyper()), objective(), versions=5)["server"].snapshots[4][1]
    other = run_locally(SSGD(NoHyper()), objective(), versions=5, order=[3, 1, 0, 2])["server"].snapshots[4][1]
    assert first.tobytes() == other.tobytes()


def test_ssgd_with_one_worker_is_plain_sgd() -> None:
    one = objective(workers=1)
    nodes = run_locally(SSGD(NoHyper()), objective(workers=1), versions=10)
    expected, _ = one.train(one.initial, 0, 0, 10)
    np.testing.assert_allclose(nodes["server"].snapshots[9][1], expected, rtol=0, atol=1e-6)


def test_ssgd_workers_answer_with_the_version_they_were_given() -> None:
    nodes = run_locally(SSGD(NoHyper()), objective(), versions=3)
    assert [version for _, _, version in nodes["w2"].sent[:3]] == [0, 1, 2]


def test_fedavg_with_one_local_step_equals_ssgd() -> None:
    # 1,438 training samples over 2 workers: equal parts, so all weights are equal.
    fedavg = run_locally(FedAvg(FedAvgHyper(local_steps=1)), objective(workers=2), versions=15)
    ssgd = run_locally(SSGD(NoHyper()), objective(workers=2), versions=15)
    np.testing.assert_allclose(fedavg["server"].snapshots[14][1], ssgd["server"].snapshots[14][1], rtol=0, atol=1e-5)


def test_fedavg_with_one_worker_is_plain_sgd() -> None:
    one = objective(workers=1)
    nodes = run_locally(FedAvg(FedAvgHyper(local_steps=4)), objective(workers=1), versions=3)
    expected, _ = one.train(one.initial, 0, 0, 12)
    np.testing.assert_allclose(nodes["server"].snapshots[2][1], expected, rtol=0, atol=1e-6)


def test_fedavg_without_local_steps_changes_nothing() -> None:
    nodes = run_locally(FedAvg(FedAvgHyper(local_steps=0)), objective(), versions=2)
    np.testing.assert_allclose(nodes["server"].snapshots[1][1], objective().initial, rtol=0, atol=1e-7)


def test_fedavg_weights_by_samples() -> None:
    one = objective(workers=4)  # 1,438 samples
    sizes = [len(part) for part in one.parts]
    assert sizes == [360, 360, 359, 359]
    trained = [one.train(one.initial, rank, 0, 5)[0].astype(np.float64) for rank in range(4)]
    expected = sum(size * model for size, model in zip(sizes, trained, strict=True)) / sum(sizes)
    nodes = run_locally(FedAvg(FedAvgHyper(local_steps=5)), objective(workers=4), versions=1)
    np.testing.assert_allclose(nodes["server"].snapshots[0][1], expected, rtol=0, atol=1e-6)


def test_fedavg_asks_a_fraction_of_the_workers() -> None:
    nodes = run_locally(FedAvg(FedAvgHyper(local_steps=1, fraction=0.5)), objective(), versions=40)
    asked: dict[int, list[str]] = {}
    for peer, tag, version in nodes["server"].sent:
        assert tag == "model"
        asked.setdefault(version, []).append(peer)
    assert {len(peers) for version, peers in asked.items() if version < 40} == {2}
    assert all(peers == sorted(set(peers)) for peers in asked.values())
    assert {peer for peers in asked.values() for peer in peers} == {"w1", "w2", "w3", "w4"}


def test_the_mean_of_equal_models_is_that_model() -> None:
    model = np.linspace(-1, 1, 101, dtype=np.float32)
    np.testing.assert_allclose(weighted_mean([model, model, model], [1, 2, 3]), model, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("vectors", "weights"), [([], None), ([np.ones(2, np.float32)], [0.0])])
def test_a_mean_of_nothing_is_refused(vectors: list[np.ndarray], weights: list[float] | None) -> None:
    with pytest.raises(ValueError, match="cannot average"):
        weighted_mean(vectors, weights)
