"""A model as one flat vector: gradients, local steps and accuracy at any point of its space."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from testbed.api import Vector
from testbed.spec.run import Workload
from testbed.workload.datasets import DATASETS, Data, load
from testbed.workload.models import MODELS, dimension
from testbed.workload.partition import PARTITIONS, Batches


class NotFinite(Exception):
    """Training has left the finite numbers."""


class Objective:
    """The loss of one workload, its data split over `workers` workers.

    Parameters and gradients of the torch model are views on two flat tensors, so a vector goes in and
    out with one copy each.
    """

    def __init__(self, workload: Workload, workers: int, seed: int, data: Data | None = None) -> None:
        self.workload = workload
        self.data = data or load(workload.data)
        torch.manual_seed(seed)
        self._net = MODELS[workload.model].build(DATASETS[workload.data])
        self._loss = nn.CrossEntropyLoss()
        parameters = list(self._net.parameters())
        self.dimension = sum(p.numel() for p in parameters)
        promised = dimension(workload.model, workload.data)
        if self.dimension != promised:
            raise ValueError(f"{workload.model} has {self.dimension} parameters where {promised} were promised")
        self._flat = torch.cat([p.detach().reshape(-1) for p in parameters])
        self._grad = torch.zeros(self.dimension)
        offset = 0
        for p in parameters:
            p.data = self._flat[offset : offset + p.numel()].view_as(p)
            p.grad = self._grad[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        self.initial: Vector = self._flat.numpy().copy()
        self.parts = PARTITIONS[workload.partition](self.data.train_labels, workers, seed)
        self._batches = [Batches(part, workload.batch, seed, rank) for rank, part in enumerate(self.parts)]

    def _inputs(self, images: npt.NDArray[np.uint8]) -> torch.Tensor:
        pixels = torch.from_numpy(images.astype(np.float32)).unsqueeze(1)
        return pixels.div_(self.data.scale).sub_(self.data.mean).div_(self.data.deviation)

    def _step(self, chosen: npt.NDArray[np.int64]) -> float:
        """Leave the mean gradient of the chosen samples in `_grad`; the mean loss."""
        self._grad.zero_()
        labels = torch.from_numpy(self.data.train_labels[chosen].astype(np.int64))
        loss = self._loss(self._net(self._inputs(self.data.train_images[chosen])), labels)
        loss.backward()
        if self.workload.weight_decay:  # the L2 term belongs to the objective, whoever takes the step
            self._grad.add_(self._flat, alpha=self.workload.weight_decay)
        value = float(loss.detach())
        if not np.isfinite(value):
            raise NotFinite(f"the loss is {value}; a smaller lr than {self.workload.lr} may help")
        return value

    def gradient_of(self, model: Vector, chosen: npt.NDArray[np.int64]) -> tuple[Vector, float]:
        """Mean gradient and mean loss of any samples; the vector is valid until the next call."""
        self._flat.copy_(torch.from_numpy(model))
        loss = self._step(chosen)
        return self._grad.numpy(), loss

    def gradient(self, model: Vector, rank: int, first: int, batch: int | None = None) -> tuple[Vector, float]:
        """Mean gradient and mean loss of a worker's samples `first` to `first + batch` of its stream.

        The vector is valid until the next call. `batch` defaults to the workload's.
        """
        return self.gradient_of(model, self._batches[rank].take(first, batch or self.workload.batch))

    def train(
        self, model: Vector, rank: int, first: int, steps: int, batch: int | None = None,
        velocity: Vector | None = None,
    ) -> tuple[Vector, float]:  # fmt: skip
        """The model after local SGD steps, and the last mean loss.

        v = momentum * v + g;  w = w - lr * v.  v starts at `velocity` and is left there, or starts at zero.
        """
        lr, momentum, size = self.workload.lr, self.workload.momentum, batch or self.workload.batch
        self._flat.copy_(torch.from_numpy(model))
        moving = torch.zeros(self.dimension) if velocity is None else torch.from_numpy(velocity)
        loss = 0.0
        for number in range(steps):
            loss = self._step(self._batches[rank].take(first + number * size, size))
            if momentum:
                moving.mul_(momentum).add_(self._grad)
            self._flat.sub_(moving if momentum else self._grad, alpha=lr)
        return self._flat.numpy(), loss

    @torch.no_grad()
    def evaluate(self, model: Vector, first: int, last: int) -> tuple[float, int]:
        """Summed loss and correct answers on test samples `first` to `last`, for evaluation in slices."""
        self._flat.copy_(torch.from_numpy(model))
        labels = torch.from_numpy(self.data.test_labels[first:last].astype(np.int64))
        scores = self._net(self._inputs(self.data.test_images[first:last]))
        loss = float(self._loss(scores, labels)) * len(labels)
        return loss, int((scores.argmax(1) == labels).sum())
