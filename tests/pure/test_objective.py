"""The objective against numpy and against finite differences, and the models' sizes by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from testbed.spec.run import Compute, Jitter, Workload
from testbed.workload.datasets import load
from testbed.workload.models import dimension
from testbed.workload.objective import NotFinite, Objective
from testbed.workload.timing import step_times

WORKLOAD = Workload("digits", "softmax", batch=16, lr=0.05)


def test_digits_hold_1797_samples_a_fifth_of_them_for_testing() -> None:
    data = load("digits")
    assert data.train_images.shape == (1438, 8, 8)
    assert data.test_images.shape == (359, 8, 8)
    assert data.train_images.max() == 16
    assert len(np.bincount(data.test_labels)) == 10


@pytest.mark.parametrize(
    ("model", "data", "size"),
    [
        ("softmax", "fashion-mnist", 785 * 10),
        ("mlp", "fashion-mnist", 785 * 64 + 65 * 10),
        # 6 and 16 filters of 5 x 5, then 400-120-84-10: the classic LeNet-5 with full connections.
        ("lenet", "fashion-mnist", 156 + 2416 + 48120 + 10164 + 850),
        ("softmax", "digits", 65 * 10),
        ("mlp", "digits", 65 * 64 + 65 * 10),
        ("lenet", "digits", 156 + 2416 + 65 * 120 + 10164 + 850),
    ],
)
def test_parameters(model: str, data: str, size: int) -> None:
    assert dimension(model, data) == size


@pytest.mark.parametrize("model", ["softmax", "mlp", "lenet"])
def test_torch_builds_what_was_promised(model: str) -> None:
    one = Objective(dataclasses.replace(WORKLOAD, model=model), workers=2, seed=1)
    assert len(one.initial) == dimension(model, "digits")


def test_softmax_gradient_equals_its_closed_form() -> None:
    one = Objective(WORKLOAD, workers=1, seed=1)
    chosen = np.arange(40)
    x = (one.data.train_images[chosen].reshape(40, 64) / one.data.scale - one.data.mean) / one.data.deviation
    y = np.eye(10)[one.data.train_labels[chosen]]
    weights, bias = one.initial[:640].reshape(10, 64).astype(float), one.initial[640:].astype(float)
    scores = x @ weights.T + bias
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    expected = np.concatenate([((p - y).T @ x / 40).ravel(), (p - y).mean(0)])
    gradient, loss = one.gradient_of(one.initial, chosen)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6)
    assert loss == pytest.approx(-np.log((p * y).sum(1)).mean(), abs=1e-5)


@pytest.mark.parametrize("model", ["mlp", "lenet"])
def test_gradients_agree_with_finite_differences(model: str) -> None:
    one = Objective(dataclasses.replace(WORKLOAD, model=model), workers=1, seed=2)
    chosen = np.arange(64)
    gradient = one.gradient_of(one.initial, chosen)[0].astype(float)
    direction = np.random.default_rng(0).standard_normal(one.dimension)
    direction /= np.linalg.norm(direction)
    step = 1e-2
    ahead = one.gradient_of((one.initial + step * direction).astype(np.float32), chosen)[1]
    behind = one.gradient_of((one.initial - step * direction).astype(np.float32), chosen)[1]
    assert (ahead - behind) / (2 * step) == pytest.approx(gradient @ direction, rel=0.02, abs=2e-4)


def test_weight_decay_adds_its_multiple_of_the_model() -> None:
    plain = Objective(WORKLOAD, workers=1, seed=1)
    decayed = Objective(dataclasses.replace(WORKLOAD, weight_decay=0.5), workers=1, seed=1)
    g, d = plain.gradient(plain.initial, 0, 0)[0].copy(), decayed.gradient(plain.initial, 0, 0)[0]
    np.testing.assert_allclose(d - g, 0.5 * plain.initial, rtol=0, atol=1e-6)


def test_local_steps_follow_the_momentum_recursion() -> None:
    one = Objective(dataclasses.replace(WORKLOAD, momentum=0.9), workers=2, seed=1)
    model, velocity = one.initial.astype(float), np.zeros(one.dimension)
    for step in range(3, 8):
        velocity = 0.9 * velocity + one.gradient(model.astype(np.float32), 1, step * one.workload.batch)[0]
        model = model - 0.05 * velocity
    trained, _ = one.train(one.initial, 1, 3 * one.workload.batch, 5)
    np.testing.assert_allclose(trained, model, rtol=0, atol=1e-5)


def test_evaluation_in_slices_adds_up() -> None:
    one = Objective(WORKLOAD, workers=1, seed=1)
    whole = one.evaluate(one.initial, 0, 359)
    parts = [one.evaluate(one.initial, first, last) for first, last in ((0, 100), (100, 359))]
    assert whole[1] == parts[0][1] + parts[1][1]
    assert whole[0] == pytest.approx(parts[0][0] + parts[1][0], rel=1e-5)


def test_a_loss_that_is_not_finite_says_what_may_help() -> None:
    one = Objective(WORKLOAD, workers=1, seed=1)
    with pytest.raises(NotFinite, match=r"a smaller lr than 0\.05"):
        one.gradient(np.full(one.dimension, np.inf, np.float32), 0, 0)


def test_step_times() -> None:
    compute = Compute(0.04, (1.0, 3.0), Jitter())
    steady = step_times(compute, 1, seed=1)
    assert [next(steady) for _ in range(3)] == pytest.approx([0.12] * 3)
    # 20,000 lognormal factors of sigma 0.3: the mean's standard error is 0.0022.
    noisy = step_times(dataclasses.replace(compute, jitter=Jitter("lognormal", 0.3)), 1, seed=1)
    times = np.array([next(noisy) for _ in range(20_000)]) / 0.12
    assert times.mean() == pytest.approx(1, abs=0.011)
    assert np.log(times).std() == pytest.approx(0.3, abs=0.01)


def test_step_times_are_the_workers_own_and_the_seeds() -> None:
    compute = Compute(0.04, (1.0, 1.0), Jitter("lognormal", 0.1))
    draws = {next(step_times(compute, rank, seed)) for rank in (0, 1) for seed in (1, 2)}
    assert len(draws) == 4
    assert next(step_times(compute, 0, 1)) == next(step_times(compute, 0, 1))
