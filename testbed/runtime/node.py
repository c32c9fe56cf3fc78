"""The node that an algorithm talks to: verbs in terms of a carrier of frames and a computer.

The carrier is TCP or the simulated network; nothing here knows which. `testbed.runtime.sharing` has the
verbs that are made of messages: publish and pull, exchange, group operations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np

from testbed.api import ComputeFailed, DeadlinePassed, Gradient, Message, PeerLost, Vector
from testbed.compute.computer import Computer
from testbed.compute.slots import Job
from testbed.runtime.activity import Running
from testbed.runtime.frames import Head, pack, unpack
from testbed.runtime.mailbox import Mailbox
from testbed.runtime.places import Place
from testbed.runtime.sharing import Sharing
from testbed.spec.run import RunSpec
from testbed.workload.models import tensors
from testbed.workload.partition import node_stream
from testbed.workload.timing import step_times

T = TypeVar("T")


class Carrier(Protocol):
    """What brings frames to peers."""

    async def send(self, peer: str, head: bytes, vector: Vector | None) -> None:
        """Hand a frame over. PeerLost when the peer cannot be reached."""
        ...

    def die(self) -> None:
        """Reset every connection, as if the process had been killed."""
        ...


class Records(Protocol):
    """Where a node writes down what happens."""

    def write(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        ...


class RunningNode(Sharing):
    """`testbed.api.Node`. Times are seconds since training began."""

    def __init__(
        self, run: RunSpec, place: Place, everybody: Sequence[Place], computer: Computer, records: Records
    ) -> None:
        self.name, self.role, self.rank, self.number = place.name, place.role, place.rank, place.number
        self._places = everybody
        self.numbers = {other.name: other.number for other in everybody}
        self.workers: Sequence[str] = run.network.workers
        self.peers: Sequence[str] = [name for name in run.network.workers if name != place.name]
        self.server = next(iter(self.members("server")), "")
        self.batch, self.momentum = run.workload.batch, run.workload.momentum
        self.tensors = tensors(run.workload.model, run.workload.data)
        self.rng = node_stream(run.seed, place.number)
        self.mailbox = Mailbox()
        self.carrier: Carrier
        self.start = 0.0
        self.waits: dict[int, str] = {}
        """What is waited for, in the order in which the waiting began; for the message about a deadlock."""
        self._waiting = 0
        self._run, self._records, self._computer = run, records, computer
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self._processor = asyncio.Lock()
        self._times: Iterator[float] = step_times(run.compute, place.rank, run.seed)
        self._taken = 0
        self._next_shot = 0.0
        self.samples = computer.samples
        self._share()

    @property
    def lr(self) -> float:
        return self._run.workload.lr

    def members(self, role: str) -> Sequence[str]:
        return [place.name for place in self._places if place.role == role]

    # Time

    def now(self) -> float:
        return self._clock() - self.start

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def spawn(self, activity: Coroutine[Any, Any, T]) -> Running[T]:
        return self.activities.spawn(activity)

    # Computing

    def initial_model(self) -> Vector:
        return self._computer.initial.copy()

    async def gradient(self, model: Vector, *, batch: int | None = None) -> Gradient:
        vector, loss = await self._compute(Job.GRADIENT, model, 1, batch, True)
        return Gradient(vector, loss)

    async def train(self, model: Vector, steps: int, *, batch: int | None = None, reset: bool = True) -> Vector:
        if steps == 0:
            return model.copy()
        vector, _ = await self._compute(Job.TRAIN, model, steps, batch, reset)
        return vector

    async def _compute(
        self, kind: Job, model: Vector, steps: int, batch: int | None, reset: bool
    ) -> tuple[Vector, float]:
        """Start the job, let the modelled time pass, then collect: the host computes meanwhile."""
        if self.role != "worker":
            raise ComputeFailed(f"{self.name} is a {self.role} and holds no data to compute on")
        self._check(model)
        size = self.batch if batch is None else batch
        if size < 1 or steps < 0:
            raise ComputeFailed(f"{self.name} was asked for {steps} steps of {size} samples")
        model = model.copy() if self._processor.locked() else model
        async with self._processor:
            self._computer.begin(kind, model, self._taken, size, steps, reset)
            self._taken += steps * size
            try:
                with self._span("compute"):
                    await asyncio.sleep(sum(next(self._times) for _ in range(steps)) * (size / self.batch))
            finally:
                made = self._computer.collect()  # also when cancelled: the slot must be free for the next job
            self._computer.count(steps * size)
            return made

    def _check(self, model: Vector) -> None:
        expected = self._computer.initial
        if model.shape != expected.shape or model.dtype != expected.dtype:
            raise ComputeFailed(
                f"{self.name} was given a model of {model.dtype}{list(model.shape)}; "
                f"this workload's models are float32[{len(expected)}]"
            )

    def snapshot(self, model: Vector, version: int) -> None:
        self._check(model)
        now = self.now()
        if now < self._next_shot:
            return
        every = self._run.horizon.evaluate_every
        self._next_shot = (now // every + 1) * every
        self._computer.show(self.name, now, version, model)

    def note(self, name: str, value: float, peer: str = "") -> None:
        self._records.write("notes", time=self.now(), node=self.name, name=name, peer=peer, value=float(value))

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
        return self.broadcast([peer], tag, vector, version=version, meta=meta, deadline=deadline)

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
        head = pack(tag, version, self.now(), meta, vector)
        # The caller may change its own while this is under way.
        own = None if vector is None else vector.copy()
        return self._send(list(peers), tag, head, own, deadline)

    async def _send(
        self, peers: list[str], tag: str, head: bytes, vector: Vector | None, deadline: float | None
    ) -> None:
        if self.name in peers:
            self._take_own(head, vector)
            peers = [peer for peer in peers if peer != self.name]
        if peers:
            size = 0 if vector is None else vector.nbytes
            with self._span("send", peers[0] if len(peers) == 1 else "", len(peers) * size):
                what = f"{tag!r} to leave for {_listed(peers)}"
                await self.waiting(self._side_by_side(peers, head, vector), what, deadline)

    def _take_own(self, head: bytes, vector: Vector | None) -> None:
        """A message to oneself, read back as anybody would read it. It crosses nothing, so nothing is recorded."""
        found = unpack(memoryview(head))
        assert found is not None
        said = found[0]
        own = np.empty(0, np.float32) if vector is None else vector.copy()
        self._put(Message(self.name, said.tag, said.version, own, said.meta))

    async def _side_by_side(self, peers: list[str], head: bytes, vector: Vector | None) -> None:
        """A peer whose connection is full must not hold up the others."""
        if len(peers) == 1:
            await self._hand_over(peers[0], head, vector)
            return
        sending = (self._hand_over(peer, head, vector) for peer in peers)
        for outcome in await asyncio.gather(*sending, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _hand_over(self, peer: str, head: bytes, vector: Vector | None) -> None:
        """A peer that cannot be reached, say because it was gone before we first spoke, is lost to every verb."""
        try:
            await self.carrier.send(peer, head, vector)
        except PeerLost as lost:
            self.lose(peer, lost.why)
            raise

    async def recv(
        self, tag: str, sender: str | None = None, *, version: int | None = None, deadline: float | None = None
    ) -> Message:
        return await self._recv(tag, sender, version, deadline)

    async def _recv(
        self, tag: str, sender: str | None, version: int | None, deadline: float | None, others: Sequence[str] = ()
    ) -> Message:
        if sender is not None and sender not in self.numbers:
            raise PeerLost(sender, f"no such node; there are {', '.join(self.numbers)}")
        message = self.mailbox.take(tag, sender, version)
        if message is not None:
            return message
        with self._span("recv", sender or ""):
            what = f"{tag!r} from {sender or 'anyone'}" + ("" if version is None else f" of version {version}")
            return await self.waiting(self.mailbox.wait(tag, sender, version, others), what, deadline)

    def poll(self, tag: str, sender: str | None = None, *, version: int | None = None) -> Message | None:
        return self.mailbox.take(tag, sender, version)

    async def gather(
        self, tag: str, senders: Sequence[str], *, version: int | None = None, deadline: float | None = None
    ) -> list[Message]:
        async def all_of_them() -> list[Message]:
            found: list[Message] = []
            try:
                for place, sender in enumerate(senders):
                    found.append(await self._recv(tag, sender, version, None, senders[place + 1 :]))
            except BaseException:
                self.mailbox.put_back(found)
                raise
            return found

        if deadline is None:
            return await all_of_them()
        return await self.waiting(all_of_them(), f"{tag!r} from all", deadline)

    async def waiting(self, awaitable: Coroutine[Any, Any, T], what: str, deadline: float | None) -> T:
        """Await something that can be named, until the deadline. DeadlinePassed when it passes."""
        self._waiting += 1
        number = self._waiting
        self.waits[number] = what
        try:
            if deadline is None:
                return await awaitable
            async with asyncio.timeout(deadline):
                return await awaitable
        except TimeoutError:
            raise DeadlinePassed(f"{self.name} waited {deadline:g} s for {what}") from None
        finally:
            del self.waits[number]

    # Records

    def deliver(self, sender: str, head: Head, vector: Vector) -> None:
        """A frame has come: write it down and put it where it belongs."""
        self._records.write(
            "messages", source=sender, target=self.name, tag=head.tag, version=head.version,
            bytes=head.size, sent=head.sent, arrived=self.now(),
        )  # fmt: skip
        self._put(Message(sender, head.tag, head.version, vector, head.meta))

    def _put(self, message: Message) -> None:
        if not self.heed(message):
            self.mailbox.put(message)

    @contextmanager
    def _span(self, phase: str, peer: str = "", size: int = 0) -> Iterator[None]:
        """Write down how long the body took, also if the horizon cuts it short; nothing if it took no time."""
        begun = self.now()
        try:
            yield
        finally:
            if (end := self.now()) > begun:
                self._records.write("spans", node=self.name, phase=phase, peer=peer, start=begun, end=end, bytes=size)


def _listed(peers: Sequence[str]) -> str:
    return ", ".join(peers[:4]) + (f" and {len(peers) - 4} more" if len(peers) > 4 else "")
