"""Models by name, small enough to train thousands of rounds on a laptop.

The number of parameters is known without torch, so that memory can be laid out and a guest booted
while torch is still being imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from testbed.api import Tensor
from testbed.workload.datasets import DATASETS, Source

if TYPE_CHECKING:
    from torch import nn

HIDDEN = 64

Shapes: TypeAlias = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Model:
    """How to build a model for a data set, and which tensors it will have."""

    build: Callable[[Source], nn.Module]
    shapes: Callable[[Source], Shapes]
    """Name and shape of every tensor, in the order of the flat vector."""


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


def _layer(name: str, inputs: tuple[int, ...], outputs: int) -> Shapes:
    return [(f"{name}.weight", (outputs, *inputs)), (f"{name}.bias", (outputs,))]


def _lenet_shapes(data: Source) -> Shapes:
    flat = 16 * _lenet_side(data.height) * _lenet_side(data.width)
    convolutions = _layer("0", (1, 5, 5), 6) + _layer("3", (6, 5, 5), 16)
    return convolutions + _layer("7", (flat,), 120) + _layer("9", (120,), 84) + _layer("11", (84,), data.classes)


MODELS: dict[str, Model] = {
    "softmax": Model(_softmax, lambda d: _layer("1", (d.height * d.width,), d.classes)),
    "mlp": Model(_mlp, lambda d: _layer("1", (d.height * d.width,), HIDDEN) + _layer("3", (HIDDEN,), d.classes)),
    "lenet": Model(_lenet, _lenet_shapes),
}


def tensors(model: str, data: str) -> tuple[Tensor, ...]:
    """How the model's tensors lie in the flat vector; KeyError for an unknown name."""
    found: list[Tensor] = []
    start = 0
    for name, shape in MODELS[model].shapes(DATASETS[data]):
        found.append(Tensor(name, shape, start, start + math.prod(shape)))
        start += math.prod(shape)
    return tuple(found)


def dimension(model: str, data: str) -> int:
    """Parameters of a model on a data set; KeyError for an unknown name."""
    return tensors(model, data)[-1].stop
