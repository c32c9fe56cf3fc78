"""The node that an algorithm talks to, on a real network: verbs in terms of transport and compute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from testbed.api import ComputeFailed, DeadlinePassed, Gradient, Message, Vector
from testbed.compute.client import Doorbell
from testbed.compute.slots import Job, Slot
from testbed.runtime.frames import Head, pack
from testbed.runtime.journal import Journal
from testbed.runtime.mailbox import Mailbox
from testbed.runtime.transport import Transport
from testbed.spec.run import RunSpec
from testbed.workload.partition import node_stream
from testbed.workload.timing import step_times


@dataclass(frozen=True)
class Place:
    """A node's place among all nodes of a run."""

    name: str
    role: str
    rank: int
    number: int
    """place among all nodes, which numbers its slots: `2 * number` for jobs, the next for snapshots."""
    server: str


class NetworkNode:
    """`testbed.api.Node` over TCP and the compute service. Times are seconds since training began."""

    def __init__(self, run: RunSpec, place: Place, slots: Sequence[Slot], journal: Journal) -> None:
        self.name, self.role, self.rank = place.name, place.role, place.rank
        self.server = place.server
        self.workers: Sequence[str] = run.network.workers
        self.batch = run.workload.batch
        self.lr, self.momentum = run.workload.lr, run.workload.momentum
        self.rng = node_stream(run.seed, place.number)
        self.mailbox = Mailbox()
        self.transport: Transport
        self.start = 0.0
        self._run, self._journal = run, journal
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self._slots = slots
        self._jobs = Doorbell(slots[2 * place.number])
        self._shots = Doorbell(slots[2 * place.number + 1])
        self._processor = asyncio.Lock()
        self._times: Iterator[float] = step_times(run.compute, place.rank, run.seed)
        self._step = 0
        self._next_shot = 0.0
        self._initial = self._fetch_initial()
        self.samples = int(self._jobs.slot.integers[Slot.SAMPLES])
        self._jobs.slot.integers[Slot.SAMPLES] = 0  # from here on: samples processed by this node

    def _fetch_initial(self) -> Vector:
        self._jobs.ring(Job.INITIAL, rank=self.rank if self.role == "worker" else -1)
        return self._jobs.wait().copy()

    # Time

    def now(self) -> float:
        return self._clock() - self.start

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # Computing

    def initial_model(self) -> Vector:
        return self._initial.copy()

    async def gradient(self, model: Vector) -> Gradient:
        vector, loss = await self._compute(Job.GRADIENT, model, 1)
        return Gradient(vector, loss)

    async def train(self, model: Vector, steps: int) -> Vector:
        if steps == 0:
            return model.copy()
        vector, _ = await self._compute(Job.TRAIN, model, steps)
        return vector

    async def _compute(self, kind: Job, model: Vector, steps: int) -> tuple[Vector, float]:
        """Start the job, let the modelled time pass, then collect: the host computes meanwhile."""
        if self.role != "worker":
            raise ComputeFailed(f"{self.name} is a {self.role} and holds no data to compute on")
        self._check(model)
        async with self._processor:
            slot = self._jobs.slot
            slot.given[:] = model
            self._jobs.ring(kind, rank=self.rank, step=self._step, steps=steps)
            self._step += steps
            try:
                with self._span("compute"):
                    await asyncio.sleep(sum(next(self._times) for _ in range(steps)))
            finally:
                vector = self._jobs.wait()  # also when we are cancelled: the slot must be free for the next job
            made = vector.copy()
            slot.integers[Slot.SAMPLES] += steps * self.batch
            return made, float(slot.floats[Slot.LOSS])

    def _check(self, model: Vector) -> None:
        if model.shape != self._initial.shape or model.dtype != self._initial.dtype:
            raise ComputeFailed(
                f"{self.name} was given a model of {model.dtype}{list(model.shape)}; "
                f"this workload's models are float32[{len(self._initial)}]"
            )

    def snapshot(self, model: Vector, version: int) -> None:
        self._check(model)
        now = self.now()
        if now < self._next_shot:
            return
        every = self._run.horizon.evaluate_every
        self._next_shot = (now // every + 1) * every
        slot = self._shots.slot
        slot.given[:] = model
        slot.text = self.name
        slot.floats[Slot.TIME] = now
        slot.integers[Slot.VERSION] = version
        # What every worker has processed by now; each keeps its own count in its own slot.
        slot.integers[Slot.SAMPLES] = sum(int(s.integers[Slot.SAMPLES]) for s in self._slots[::2])
        self._shots.ring(Job.SNAPSHOT)
        self._shots.wait()

    # Talking

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
        head = pack(tag, version, self.now(), meta, vector)
        sending = self.transport.send(peer, head, vector)
        with self._span("send", peer, 0 if vector is None else vector.nbytes):
            await (sending if deadline is None else self._by(deadline, sending, f"sending {tag!r} to {peer}"))

    async def recv(self, tag: str, sender: str | None = None, *, deadline: float | None = None) -> Message:
        message = self.mailbox.take(tag, sender)
        if message is not None:
            return message
        waiting = self.mailbox.wait(tag, sender)
        with self._span("recv", sender or ""):
            return await (
                waiting if deadline is None else self._by(deadline, waiting, f"{tag!r} from {sender or 'anyone'}")
            )

    async def broadcast(
        self, peers: Sequence[str], tag: str, vector: Vector | None = None, *, version: int = 0
    ) -> None:
        head = pack(tag, version, self.now(), None, vector)
        with self._span("send", "", len(peers) * (0 if vector is None else vector.nbytes)):
            # Side by side: a peer whose connection is full must not hold up the others.
            sending = (self.transport.send(peer, head, vector) for peer in peers)
            for outcome in await asyncio.gather(*sending, return_exceptions=True):
                if outcome is not None:
                    raise outcome

    async def gather(self, tag: str, senders: Sequence[str], *, deadline: float | None = None) -> list[Message]:
        async def all_of_them() -> list[Message]:
            found: list[Message] = []
            try:
                for sender in senders:
                    found.append(await self.recv(tag, sender))
            except BaseException:
                self.mailbox.put_back(found)
                raise
            return found

        gathering = all_of_them()
        return await (gathering if deadline is None else self._by(deadline, gathering, f"{tag!r} from all"))

    async def _by(self, deadline: float, awaitable: Any, what: str) -> Any:
        try:
            async with asyncio.timeout(deadline):
                return await awaitable
        except TimeoutError:
            raise DeadlinePassed(f"{self.name} waited {deadline:g} s for {what}") from None

    # Records

    def deliver(self, sender: str, head: Head, vector: Vector) -> None:
        """A frame has come: write it down and put it into the mailbox."""
        self._journal.write(
            "messages", source=sender, target=self.name, tag=head.tag, version=head.version,
            bytes=head.size, sent=head.sent, arrived=self.now(),
        )  # fmt: skip
        self.mailbox.put(Message(sender, head.tag, head.version, vector, head.meta))

    @contextmanager
    def _span(self, phase: str, peer: str = "", size: int = 0) -> Iterator[None]:
        """Write down how long the body took, also if the horizon cuts it short; nothing if it took no time."""
        begun = self.now()
        try:
            yield
        finally:
            if (end := self.now()) > begun:
                self._journal.write("spans", node=self.name, phase=phase, peer=peer, start=begun, end=end, bytes=size)
