"""Algorithms in one process, without a network: what they compute, not how long it takes.

Messages arrive at once, computing takes no time, and the loss is the project's own objective.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from testbed.api import Algorithm, Gradient, Message, Vector
from testbed.runtime.mailbox import Mailbox
from testbed.workload.objective import Objective


class LocalNode:
    """`testbed.api.Node` among nodes of the same process."""

    def __init__(self, name: str, rank: int, nodes: dict[str, LocalNode], objective: Objective, server: str) -> None:
        self.name, self.rank, self.server = name, rank, server
        self.role = "server" if name == server else "worker"
        self.workers: Sequence[str] = [f"w{i + 1}" for i in range(len(objective.parts))]
        self.samples = 0 if self.role == "server" else len(objective.parts[rank])
        self.batch = objective.workload.batch
        self.lr, self.momentum = objective.workload.lr, objective.workload.momentum
        self.rng = np.random.default_rng(rank)
        self.mailbox = Mailbox()
        self.snapshots: list[tuple[int, Vector]] = []
        self.sent: list[tuple[str, str, int]] = []
        self._nodes, self._objective, self._step = nodes, objective, 0

    def now(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def initial_model(self) -> Vector:
        return self._objective.initial.copy()

    async def gradient(self, model: Vector) -> Gradient:
        vector, loss = self._objective.gradient(model, self.rank, self._step)
        self._step += 1
        return Gradient(vector.copy(), loss)

    async def train(self, model: Vector, steps: int) -> Vector:
        made, _ = self._objective.train(model, self.rank, self._step, steps)
        self._step += steps
        return made.copy()

    async def send(
        self, peer: str, tag: str, vector: Vector | None = None, *, version: int = 0,
        meta: dict[str, Any] | None = None, deadline: float | None = None,
    ) -> None:  # fmt: skip
        payload = np.empty(0, np.float32) if vector is None else vector.copy()
        self.sent.append((peer, tag, version))
        self._nodes[peer].mailbox.put(Message(self.name, tag, version, payload, meta or {}))

    async def recv(self, tag: str, sender: str | None = None, *, deadline: float | None = None) -> Message:
        return self.mailbox.take(tag, sender) or await self.mailbox.wait(tag, sender)

    async def broadcast(
        self, peers: Sequence[str], tag: str, vector: Vector | None = None, *, version: int = 0
    ) -> None:
        for peer in peers:
            await self.send(peer, tag, vector, version=version)

    async def gather(self, tag: str, senders: Sequence[str], *, deadline: float | None = None) -> list[Message]:
        return [await self.recv(tag, sender) for sender in senders]

    def snapshot(self, model: Vector, version: int) -> None:
        self.snapshots.append((version, model.copy()))


def run_locally(
    algorithm: Algorithm[Any], objective: Objective, versions: int, order: Sequence[int] | None = None
) -> dict[str, LocalNode]:
    """Run until the server has shown that many versions; the nodes, to look into.

    `order` starts the workers in another order, and with it changes whose messages come first.
    """
    return asyncio.run(_run(algorithm, objective, versions, order))


async def _run(
    algorithm: Algorithm[Any], objective: Objective, versions: int, order: Sequence[int] | None
) -> dict[str, LocalNode]:
    count = len(objective.parts)
    nodes: dict[str, LocalNode] = {}
    nodes["server"] = LocalNode("server", 0, nodes, objective, "server")
    for rank in range(count):
        nodes[f"w{rank + 1}"] = LocalNode(f"w{rank + 1}", rank, nodes, objective, "server")
    tasks = [asyncio.ensure_future(algorithm.worker(nodes[f"w{rank + 1}"])) for rank in order or range(count)]
    tasks.append(asyncio.ensure_future(algorithm.server(nodes["server"])))
    async with asyncio.timeout(60):
        while len(nodes["server"].snapshots) < versions:
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return nodes
