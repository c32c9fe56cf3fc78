"""Data sets: where they come from, and arrays that need no second decoding.

Images stay bytes on disk and in memory; they become floats batch by batch. Nothing is downloaded.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.cache import cache_folder

FASHION_FILES = [
    Path("/usr/share/datasets/fashion-mnist") / f"{name}-ubyte.gz"
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
]


class DataMissing(Exception):
    """A data set is not installed; the message says how to get it."""


@dataclass(frozen=True)
class Data:
    """A data set in memory or mapped from a file."""

    name: str
    train_images: npt.NDArray[np.uint8]
    """samples x height x width."""
    train_labels: npt.NDArray[np.uint8]
    test_images: npt.NDArray[np.uint8]
    test_labels: npt.NDArray[np.uint8]
    scale: float
    """the largest value an image byte takes."""
    mean: float
    """of all scaled training bytes; removed from every input."""
    deviation: float
    """of all scaled training bytes; divides every input."""


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """An IDX file: two zero bytes, type 8 (bytes), the number of axes, big-endian sizes, the bytes."""
    raw = gzip.decompress(path.read_bytes())
    if raw[:3] != b"\x00\x00\x08":
        raise DataMissing(f"{path} is not an IDX file of bytes; reinstall dataset-fashion-mnist")
    axes = raw[3]
    sizes = np.frombuffer(raw, ">u4", axes, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(tuple(int(n) for n in sizes))


def _decoded(source: Path) -> npt.NDArray[np.uint8]:
    """The array of an IDX file, decoded once into the cache and mapped from there ever after."""
    stamp = f"{source.stat().st_size}-{int(source.stat().st_mtime)}"
    target = cache_folder() / "data" / f"{source.stem}-{stamp}.npy"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
            np.save(part, _read_idx(source))
        os.replace(part.name, target)  # whole or not at all, also when two runs decode at once
    return np.load(target, mmap_mode="r")  # type: ignore[no-any-return]


def _fashion_missing() -> str:
    missing = [path for path in FASHION_FILES if not path.exists()]
    return f"{missing[0]} is missing; get it with: sudo apt-get install dataset-fashion-mnist" if missing else ""


def _fashion_mnist() -> Data:
    """Xiao, Rasul, Vollgraf: Fashion-MNIST, 2017; 60,000 and 10,000 images of 28 x 28."""
    if missing := _fashion_missing():
        raise DataMissing(missing)
    # Mean and deviation are the published ones of the training set.
    images, labels, test_images, test_labels = (_decoded(path) for path in FASHION_FILES)
    return Data("fashion-mnist", images, labels, test_images, test_labels, 255, mean=0.2860, deviation=0.3530)


def _digits() -> Data:
    """Optical digits of 8 x 8, 1,797 of them (UCI), as scikit-learn carries them; every fifth is for testing."""
    from sklearn.datasets import load_digits  # here, because it takes a second to import

    bunch: Any = load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.uint8)
    test = np.arange(len(labels)) % 5 == 4
    scaled = images[~test] / 16
    return Data(
        "digits", images[~test], labels[~test], images[test], labels[test],
        scale=16, mean=float(scaled.mean()), deviation=float(scaled.std()),
    )  # fmt: skip


@dataclass(frozen=True)
class Source:
    """What is known of a data set before it is read."""

    height: int
    width: int
    classes: int
    read: Callable[[], Data]
    missing: Callable[[], str] = lambda: ""
    """What is not installed and how to get it; empty when all is there."""


DATASETS: dict[str, Source] = {
    "fashion-mnist": Source(28, 28, 10, _fashion_mnist, _fashion_missing),
    "digits": Source(8, 8, 10, _digits),
}


def load(name: str) -> Data:
    """The data set of that name. DataMissing with the remedy when it is not installed."""
    return DATASETS[name].read()
