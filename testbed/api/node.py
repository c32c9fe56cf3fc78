"""The node that an algorithm talks to: who it is, and every verb it has.

Whatever waits takes a `deadline`, in seconds from now; None waits until the run ends. DeadlinePassed is
raised when it passes, PeerLost when the peer that is waited for is gone, or has never been. A peer's end is
heard of by those who have been in touch with it, a message's way later; who has not finds out by sending.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from testbed.api.values import Gradient, Message, Tensor, Vector

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Activity(Awaitable[T_co], Protocol[T_co]):
    """Something that a node does beside the rest. Awaiting it gives its result, or raises its error.

    An error that nobody awaits ends the run: at once when nothing holds the activity any more, else when the
    run's time is over.
    """

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        ...

    def cancel(self) -> None:
        """End it where it stands, unless it has ended; it takes no message along.

        Whoever awaits it gets asyncio's CancelledError, which ends the run where nobody catches it.
        """
        ...


class Node(Protocol):
    """One participant, seen by the algorithm that runs on it."""

    name: str
    role: str
    rank: int
    """Place among the nodes of the same role, from 0."""
    workers: Sequence[str]
    """Every worker's name, in rank order."""
    peers: Sequence[str]
    """Every worker but this node, in rank order."""
    server: str
    """The server's name (the first one's, if there are several); empty where the algorithm has none."""
    samples: int
    """Training samples that this node holds; 0 where it is no worker."""
    batch: int
    """Samples in a mini-batch of the workload."""
    momentum: float
    """Momentum of the workload."""
    tensors: Sequence[Tensor]
    """How the model's tensors lie in the flat vector, without gaps."""
    rng: np.random.Generator
    """This node's own stream, drawn from the run's seed."""

    @property
    def lr(self) -> float:
        """The workload's learning rate at this moment."""
        ...

    def members(self, role: str) -> Sequence[str]:
        """The nodes of a role in rank order; empty where the algorithm does not have it."""
        ...

    # Time, and what happens side by side

    def now(self) -> float:
        """Seconds since training began."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""
        ...

    def spawn(self, activity: Coroutine[Any, Any, T]) -> Activity[T]:
        """Do this beside everything else, beginning when the caller next waits."""
        ...

    # Computing

    def initial_model(self) -> Vector:
        """The model that every node starts from; equal on all of them."""
        ...

    async def gradient(self, model: Vector, *, batch: int | None = None) -> Gradient:
        """Mean gradient of this worker's next mini-batch at `model`; takes one modelled step.

        `batch` samples instead of the workload's take proportionally longer or shorter. A worker computes
        one thing at a time.
        """
        ...

    async def train(self, model: Vector, steps: int, *, batch: int | None = None, reset: bool = True) -> Vector:
        """`model` after that many local SGD steps on this worker's next mini-batches.

        The optimiser is the workload's (learning rate, momentum, weight decay). Its momentum starts at
        zero, or with `reset=False` where this worker's last `train` left it. Takes `steps` modelled steps.
        """
        ...

    def snapshot(self, model: Vector, version: int) -> None:
        """Show the model of this moment. It is evaluated later and costs no time.

        Call it at every new version: the engine keeps as many as the experiment asks for.
        """
        ...

    def note(self, name: str, value: float, peer: str = "") -> None:
        """Write a number of the algorithm's own into the records: a staleness, a weight, a number of steps."""
        ...

    # Messages

    def send(
        self,
        peer: str,
        tag: str,
        vector: Vector | None = None,
        *,
        version: int = 0,
        meta: dict[str, Any] | None = None,
        deadline: float | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Hand a message to the network; returns when at most about one message is still unsent.

        Messages to one peer arrive in order, except that one without a vector may overtake those with one.
        A deadline that passes before that gives the message up: the peer never sees it, and others to the
        same peer are not touched. A message that was handed over may still be lost with the peer. One to
        oneself is there at once. The vector is copied here, so that it may change from now on.
        """
        ...

    async def recv(
        self, tag: str, sender: str | None = None, *, version: int | None = None, deadline: float | None = None
    ) -> Message:
        """The oldest unread message of that tag, from `sender` or from anyone, of `version` or of any."""
        ...

    def poll(self, tag: str, sender: str | None = None, *, version: int | None = None) -> Message | None:
        """Like `recv`, but None at once where there is no such message yet; PeerLost where none can come."""
        ...

    def broadcast(
        self,
        peers: Sequence[str],
        tag: str,
        vector: Vector | None = None,
        *,
        version: int = 0,
        meta: dict[str, Any] | None = None,
        deadline: float | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Send the same message to several peers side by side; this node may be one of them.

        A peer that is lost holds up no other; PeerLost is raised when all have been served. A deadline gives
        the message up for those only to whom it was not handed over yet.
        """
        ...

    async def gather(
        self, tag: str, senders: Sequence[str], *, version: int | None = None, deadline: float | None = None
    ) -> list[Message]:
        """One message of that tag from each sender, in the order of `senders` whatever comes first.

        When the deadline passes, or as soon as a sender is lost whose message has not come, those that had
        come stay unread.
        """
        ...

    # Snapshots that others take, without this node's help

    def publish(self, vector: Vector, version: int, *, name: str = "model") -> None:
        """Let others pull this snapshot; it replaces the one of that name. A pull sees one of them whole."""
        ...

    async def pull(
        self, peer: str, *, name: str = "model", after: int | None = None, deadline: float | None = None
    ) -> Message:
        """The peer's newest snapshot of that name; the first one, when it has not published yet.

        With `after` the pull waits at the peer for a later version than that. What was pulled is this
        node's own copy; one may pull from oneself. An answer that comes after the deadline is dropped.
        """
        ...

    # Two nodes at once

    def on_exchange(self, give: Callable[[], Vector], take: Callable[[Message], None]) -> None:
        """Say what this node does in an exchange, whoever began it: `give()` what the other gets, then
        `take(message)` what the other gave. Nothing comes between the two. Peers that ask earlier wait.
        """
        ...

    async def exchange(self, peer: str, *, deadline: float | None = None) -> Message:
        """Swap vectors with a peer, atomically: from `give` to `take` neither side exchanges with a third.

        Both sides' `give` and `take` are called; what was taken is returned too. Any pattern of exchanges
        comes to its end: of two that meet one is enough, and a peer that is busy makes the one wait and
        the other ask again, by their order among the nodes. ValueError before `on_exchange` and with oneself.

        A request that is given up is withdrawn, and a peer that was busy, or had not called `on_exchange`,
        takes nothing. Only if its answer was under way by then has it taken its part and this node not.
        """
        ...

    # Groups. Every member calls the same operation with the same group in the same order; operations that
    # run side by side need tags of their own. ValueError where the group lacks this node or names one twice.
    # After an error its members are at different steps: go on under another tag. A member's end is told to its
    # neighbours in the ring, which is the group's order; the others wait for them, so give a deadline.

    async def reduce_scatter(
        self, group: Sequence[str], tag: str, vector: Vector, *, deadline: float | None = None
    ) -> Vector:
        """Sum over the group, each member keeping the part (see `parts`) of its own place in it.

        A ring: len(group) - 1 steps, a part in each. The order of summation is fixed by the ring.
        """
        ...

    async def all_gather(
        self, group: Sequence[str], tag: str, part: Vector, *, deadline: float | None = None
    ) -> Vector:
        """Every member's part, put together in the order of the group; lengths may differ. A ring too."""
        ...

    async def all_reduce(
        self, group: Sequence[str], tag: str, vector: Vector, *, deadline: float | None = None
    ) -> Vector:
        """The sum over the group, equal on every member to the last bit: reduce-scatter, then all-gather."""
        ...
