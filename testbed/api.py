"""All that an algorithm may see.

An algorithm is one file in `algorithms/`, found by its name, holding one subclass of `Algorithm`.
It says what each role does; the engine owns everything around it: the start, the clock, the records,
the evaluation and the end. The same file runs on every engine.

A model is one flat float32 vector. Vectors that a node hands out belong to the caller, and vectors
given to a node are not kept: both sides may change their own afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]


class TestbedError(Exception):
    """Something an algorithm may catch and act on."""

    __test__ = False  # pytest would take the name for a test class


class PeerLost(TestbedError):
    """The connection to a peer is gone. `peer` is its name."""

    def __init__(self, peer: str, why: str) -> None:
        super().__init__(f"{peer} is lost: {why}")
        self.peer = peer


class DeadlinePassed(TestbedError):
    """Nothing came in time."""


class ComputeFailed(TestbedError):
    """The compute service refused a job: wrong shape, or numbers that are not finite."""


@dataclass(frozen=True)
class Message:
    """What one node sent to another."""

    sender: str
    tag: str
    version: int
    """Whatever the algorithm numbers: a round, a model version, a step."""
    vector: Vector
    """Empty where the sender sent none."""
    meta: dict[str, Any]


@dataclass(frozen=True)
class Gradient:
    """The mean gradient of one mini-batch, and the mean loss before the step."""

    vector: Vector
    loss: float


class Node(Protocol):
    """One participant, seen by the algorithm that runs on it.

    `send`, `recv` and `gather` take a `deadline` in seconds from now; None waits until the run ends.
    """

    name: str
    role: str
    rank: int
    """Place among the nodes of the same role, from 0."""
    workers: Sequence[str]
    """Every worker's name, in rank order."""
    server: str
    """The server's name; empty where the algorithm has no server."""
    samples: int
    """Training samples that this node holds; 0 on a server."""
    batch: int
    """Samples in a mini-batch."""
    lr: float
    """Learning rate of the workload."""
    momentum: float
    """Momentum of the workload."""
    rng: np.random.Generator
    """This node's own stream, drawn from the run's seed."""

    def now(self) -> float:
        """Seconds since training began."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""
        ...

    def initial_model(self) -> Vector:
        """The model that every node starts from; equal on all of them."""
        ...

    async def gradient(self, model: Vector) -> Gradient:
        """Mean gradient of this worker's next mini-batch at `model`; takes one modelled step."""
        ...

    async def train(self, model: Vector, steps: int) -> Vector:
        """`model` after that many local SGD steps on this worker's next mini-batches.

        The optimiser is the workload's (learning rate, momentum, weight decay); its momentum starts
        at zero in every call. Takes `steps` modelled steps.
        """
        ...

    async def send(
        self,
        peer: str,
        tag: str,
        vector: Vector | None = None,
        *,
        version: int = 0,
        meta: dict[str, Any] | None = None,
        deadline: float | None = None,
    ) -> None:
        """Hand a message to the network; returns when at most about one message is still unsent.

        PeerLost when the peer's connection is gone. A deadline that passes in the middle of a message
        closes the connection, so the peer is lost from then on.
        """
        ...

    async def recv(self, tag: str, sender: str | None = None, *, deadline: float | None = None) -> Message:
        """The oldest unread message of that tag, from `sender` or from anyone.

        PeerLost when that sender's connection is gone, DeadlinePassed when nothing comes in time.
        """
        ...

    async def broadcast(
        self, peers: Sequence[str], tag: str, vector: Vector | None = None, *, version: int = 0
    ) -> None:
        """Send the same message to several peers side by side."""
        ...

    async def gather(self, tag: str, senders: Sequence[str], *, deadline: float | None = None) -> list[Message]:
        """One message of that tag from each sender, in the order of `senders` whatever comes first.

        When the deadline passes or a peer is lost, messages that had come stay unread.
        """
        ...

    def snapshot(self, model: Vector, version: int) -> None:
        """Show the model of this moment. It is evaluated later and costs no time.

        Call it at every new version: the engine keeps as many as the experiment asks for.
        """
        ...


@dataclass(frozen=True)
class NoHyper:
    """For an algorithm with nothing to set."""


H = TypeVar("H")


class Algorithm(ABC, Generic[H]):
    """What each role does.

    `Hyper` is a frozen dataclass of hyper-parameters; an instance of it is `self.hyper`. The roles
    are the `async def` methods `worker` and, where `has_server` is true, `server`.
    """

    Hyper: ClassVar[type] = NoHyper
    has_server: ClassVar[bool] = False
    reference: ClassVar[str] = ""
    """The paper."""

    def __init__(self, hyper: H) -> None:
        self.hyper = hyper

    @abstractmethod
    async def worker(self, node: Node) -> None:
        """A worker's whole life; the engine ends it at the horizon."""

    async def server(self, node: Node) -> None:
        """The server's whole life, where there is one."""
        raise TypeError(f"{type(self).__name__} declares a server and does not say what it does")


def weighted_mean(vectors: Sequence[Vector], weights: Sequence[float] | None = None) -> Vector:
    """The mean, weighted if asked for, summed in the order given so that it repeats bit for bit.

    Weights need not sum to one. ValueError when there is nothing to average or the weights sum to 0.
    """
    shares = [1.0] * len(vectors) if weights is None else list(weights)
    total = sum(shares)
    if len(shares) != len(vectors) or total <= 0:
        raise ValueError(f"cannot average {len(vectors)} vectors with weights {shares}")
    mean = np.multiply(vectors[0], np.float32(shares[0] / total))
    for vector, share in zip(vectors[1:], shares[1:], strict=True):
        mean += vector * np.float32(share / total)
    return mean


class MomentumSGD:
    """The workload's optimiser for an algorithm that applies gradients itself.

    v = momentum * v + g;  w = w - lr * v   (as in Sutskever et al. 2013 with v = -velocity / lr)
    """

    def __init__(self, lr: float, momentum: float = 0.0) -> None:
        self._lr, self._momentum = np.float32(lr), np.float32(momentum)
        self._velocity: Vector | None = None

    def step(self, model: Vector, gradient: Vector) -> None:
        """Move `model` in place."""
        if self._momentum:
            if self._velocity is None:
                self._velocity = np.zeros_like(model)
            self._velocity *= self._momentum
            self._velocity += gradient
            gradient = self._velocity
        model -= self._lr * gradient
