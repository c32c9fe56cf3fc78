"""An algorithm that uses every verb and checks what comes of it; a wrong value fails its run."""

from __future__ import annotations

import numpy as np

from testbed.api import Algorithm, DeadlinePassed, Message, Node, NoHyper, PeerLost, Vector


class EveryVerb(Algorithm[NoHyper]):
    """Notes `done` on every worker that got through."""

    roles = ("monitor",)

    async def monitor(self, node: Node) -> None:
        for message in await node.gather("ready", node.workers):
            await node.send(message.sender, "go", version=7)

    async def worker(self, node: Node) -> None:
        (monitor,) = node.members("monitor")
        await node.send(monitor, "ready")
        assert (await node.recv("go", monitor, version=7)).version == 7
        for size in (0, 1, 7, 1001):
            mine = np.arange(size, dtype=np.float32) * (node.rank + 1)
            total = await node.all_reduce(node.workers, f"sum{size}", mine)
            np.testing.assert_array_equal(total, np.arange(size, dtype=np.float32) * 6)
        await self.pulls(node)
        await self.exchanges(node)
        await self.rest(node)
        node.note("done", 1)

    async def pulls(self, node: Node) -> None:
        model = np.full(5001, node.rank, np.float32)
        node.publish(model, 1)
        model[:] = 9
        peer = node.workers[(node.rank + 1) % 3]
        pulling = node.spawn(node.pull(peer, after=1))
        first = await node.pull(peer)
        assert set(first.vector.tolist()) == {(node.rank + 1) % 3} and first.version == 1
        await node.sleep(1.0)
        node.publish(model, 2)
        assert set((await pulling).vector.tolist()) == {9}
        try:
            await node.pull(peer, name="nothing", deadline=0.25)
        except DeadlinePassed:
            return
        raise AssertionError("a pull of nothing must pass its deadline")

    async def exchanges(self, node: Node) -> None:
        self.held: Vector = np.full(5, node.rank, np.float32)

        def take(message: Message) -> None:
            self.held = (self.held + message.vector) / 2

        node.on_exchange(lambda: self.held, take)
        for _ in range(5):
            await node.exchange(node.peers[node.rng.integers(2)])
        await node.all_reduce(node.workers, "all have asked", np.empty(0, np.float32))
        total = await node.all_reduce(node.workers, "held", self.held)
        np.testing.assert_allclose(total, 3.0, atol=1e-5)  # 0 + 1 + 2, kept by every exchange

    async def rest(self, node: Node) -> None:
        await node.send(node.name, "self", np.ones(3, np.float32))
        assert node.poll("self") is not None and node.poll("self") is None
        model = node.initial_model()
        kept = await node.train(await node.train(model, 2), 2, reset=False)
        assert kept.shape == model.shape and node.tensors[-1].stop == len(model)
        assert np.isfinite((await node.gradient(model, batch=3)).vector).all()
        if node.rank == 0:
            try:
                await node.recv("never", node.workers[2])
            except PeerLost as lost:
                assert lost.peer == node.workers[2]
        elif node.rank == 2:
            await node.send(node.workers[0], "hello")
            node.note("done", 1)
            await node.sleep(1000)
