"""Splits and batch streams: nothing lost, nothing twice, nothing that depends on who asks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.workload.partition import Batches, iid, node_stream, stream


@given(st.integers(1, 300), st.integers(1, 12), st.integers(0, 2**32))
def test_iid_is_a_partition_into_even_parts(samples: int, workers: int, seed: int) -> None:
    parts = iid(np.zeros(samples, np.uint8), workers, seed)
    assert sorted(np.concatenate(parts)) == list(range(samples))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_iid_mixes_the_classes() -> None:
    # 10,000 samples sorted by class: a part of 2,500 holds 250 of each class; 5 sigma are 70.
    labels = np.repeat(np.arange(10, dtype=np.uint8), 1000)
    for part in iid(labels, 4, seed=3):
        counts = np.bincount(labels[part], minlength=10)
        assert counts.min() > 180 and counts.max() < 320


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 5))
def test_an_epoch_shows_every_sample_once(size: int, batch: int, epochs: int) -> None:
    part = np.arange(100, 100 + size)
    batches = Batches(part, batch, seed=1, rank=0)
    needed = -(-size * epochs // batch)
    seen = np.concatenate([batches[k] for k in range(needed)])[: size * epochs]
    for epoch in range(epochs):
        assert sorted(seen[epoch * size : (epoch + 1) * size]) == list(part)


def test_a_batch_is_a_function_of_its_number() -> None:
    one, other = (Batches(np.arange(50), 8, seed=1, rank=2) for _ in range(2))
    forward = [one[k].tolist() for k in range(30)]
    backward = [other[k].tolist() for k in reversed(range(30))]
    assert forward == backward[::-1]


def test_streams_of_other_places_and_purposes_differ() -> None:
    draws = {
        float(rng.random())
        for rng in (
            stream(1, 0),
            stream(1, 1),
            stream(2, 0),
            stream(1, 0, 0),
            stream(1, 0, 1),
            node_stream(1, 0),
        )
    }
    assert len(draws) == 6
