"""Ways in which a run ends, or nearly ends; `how` says which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.api import Algorithm, Message, Node, PeerLost


@dataclass(frozen=True)
class Hyper:
    how: str = ""


class Endings(Algorithm[Hyper]):
    Hyper = Hyper

    async def worker(self, node: Node) -> None:
        await getattr(self, self.hyper.how)(node)

    async def dropped(self, node: Node) -> None:
        """An error that is never awaited."""
        if node.rank == 1:
            node.spawn(node.recv("never", deadline=1))
        await node.sleep(1000)

    async def held(self, node: Node) -> None:
        """An error that could be awaited to the end."""
        if node.rank == 1:
            self.kept = node.spawn(self.fail(node))
        await node.sleep(1000)

    async def fail(self, node: Node) -> None:
        await node.sleep(1)
        raise KeyError("mine")

    async def left_behind(self, node: Node) -> None:
        """Its node has nothing more to do when it fails."""
        if node.rank == 1:
            node.spawn(self.fail(node))

    async def taking(self, node: Node) -> None:
        """What a node does in an exchange that another began."""

        def take(message: Message) -> None:
            raise ValueError(f"{node.name} cannot take this")

        node.on_exchange(lambda: np.zeros(3, np.float32), take if node.rank == 1 else lambda message: None)
        if node.rank == 0:
            await node.exchange("w2")
        await node.sleep(1000)

    async def cancelled(self, node: Node) -> None:
        if node.rank == 1:
            activity = node.spawn(node.sleep(1000))
            activity.cancel()
            await activity
        await node.sleep(1000)

    async def freed(self, node: Node) -> None:
        """All wait in a circle, and nothing but the end of w3 can free them."""
        if node.rank == 0:
            await node.send("w3", "hello")
            try:
                await node.recv("never", "w3")
            except PeerLost:
                node.note("freed", 1)
            await node.send("w2", "go")
        elif node.rank == 1:
            await node.recv("go", "w1")
            node.note("freed", 1)
        else:
            await node.recv("never", "w2")

    async def standstill(self, node: Node) -> None:
        """All wait in a circle, and nothing can free them."""
        node.note("begun", 1)
        await node.recv("never", node.workers[node.rank - 1])
        node.note("got a message that nobody sent", 0)
