"""Models by name, small enough to train thousands of rounds on a laptop.

The number of parameters is known without torch, so that memory can be laid out and a guest booted
while torch is still being imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.workload.datasets import DATASETS, Source

if TYPE_CHECKING:
    from torch import nn

HIDDEN = 64


@dataclass(frozen=True)
class Model:
    """How to build a model for a data set, and how many parameters it will have."""

    build: Callable[[Source], nn.Module]
    parameters: Callable[[Source], int]


def _softmax(data: Source) -> nn.Module:
    """Softmax regression: one linear layer."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(data.height * data.width, data.classes))


def _mlp(data: Source) -> nn.Module:
    """One hidden layer."""
    from torch import nn

    inputs = data.height * data.width
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, data.classes))


def _lenet_side(size: int) -> int:
    """What is left of an image's side after both convolutions and poolings."""
    return size // 4 if size < 16 else (size // 2 - 4) // 2


def _lenet(data: Source) -> nn.Module:
    """LeNet-5 with ReLU and max pooling, after LeCun et al. 1998.

    The second convolution is padded where the image is too small for it, as 8 x 8 is.
    """
    from torch import nn

    padding = 2 if data.height < 16 else 0
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * _lenet_side(data.height) * _lenet_side(data.width), 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, data.classes),
    )  # fmt: skip


def _dense(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def _lenet_parameters(data: Source) -> int:
    flat = 16 * _lenet_side(data.height) * _lenet_side(data.width)
    convolutions = _dense(5 * 5, 6) + _dense(6 * 5 * 5, 16)
    return convolutions + _dense(flat, 120) + _dense(120, 84) + _dense(84, data.classes)


MODELS: dict[str, Model] = {
    "softmax": Model(_softmax, lambda d: _dense(d.height * d.width, d.classes)),
    "mlp": Model(_mlp, lambda d: _dense(d.height * d.width, HIDDEN) + _dense(HIDDEN, d.classes)),
    "lenet": Model(_lenet, _lenet_parameters),
}


def dimension(model: str, data: str) -> int:
    """Parameters of a model on a data set; KeyError for an unknown name."""
    return MODELS[model].parameters(DATASETS[data])
