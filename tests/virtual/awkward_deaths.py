"""Hosts that die in the midst of everything: w3 at 3 s while it is given 1 MB, w4 at 6 s while it gives 1 MB.

w1 has 10 ms to the hub, w2 20 ms, w3 and w4 40 ms and 5 Mbit/s. Whoever gets through a scene notes its name.
"""

from __future__ import annotations

import numpy as np

from testbed.api import Algorithm, DeadlinePassed, Node, NoHyper, PeerLost, Vector

MEGABYTE = 250_000
"""float32 numbers; 1.6 s of w3's and w4's links."""


def filled(value: float, size: int = 5) -> Vector:
    return np.full(size, value, np.float32)


async def loses(peer: str, trying: object) -> None:
    try:
        await trying  # type: ignore[misc]
    except PeerLost as lost:
        assert lost.peer == peer and peer in str(lost), str(lost)
        return
    raise AssertionError(f"{peer} was to be lost")


class Deaths(Algorithm[NoHyper]):
    async def worker(self, node: Node) -> None:
        node.on_exchange(lambda: filled(node.rank), lambda message: None)
        if node.rank < 3:  # w4 speaks with w1 only, and so does w1 with it
            others = [name for name in node.workers[:3] if name != node.name]
            await node.broadcast(others, "hello", filled(1))
            await node.gather("hello", others)
        if node.rank in (0, 3):
            await node.send(node.workers[3 - node.rank], "hello", filled(1))
            await node.recv("hello")
        await getattr(self, node.name)(node)

    async def until(self, node: Node, time: float) -> None:
        await node.sleep(time - node.now())

    async def w1(self, node: Node) -> None:
        await self.until(node, 2.5)
        await node.send("w3", "large", filled(1, MEGABYTE), version=1)
        waiting = node.spawn(node.recv("answer", "w3"))
        blocked = node.spawn(node.send("w3", "large", filled(2, MEGABYTE), version=2))
        both = node.spawn(node.broadcast(["w2", "w3"], "to both", filled(3, MEGABYTE)))
        await loses("w3", waiting)
        assert 3.05 <= node.now() < 3.06  # the reset has 50 ms to go
        for lost in (blocked, both, node.send("w3", "word"), node.send("w3", "vector", filled(1))):
            await loses("w3", lost)
        for trying in (node.recv("more", "w3"), node.pull("w3"), node.exchange("w3"), node.gather("more", ["w3"])):
            await loses("w3", trying)
        assert node.now() < 3.1
        assert (await node.recv("last words", "w3", version=1)).vector.tolist() == [7] * 5  # what had come stays
        assert (await node.recv("thanks", "w2")).version == 3
        node.note("w3 died", 1)
        assert (await node.recv("last words", "w4", version=1)).vector.tolist() == [8] * 5
        await loses("w4", node.recv("large", "w4"))
        assert 6.05 <= node.now() < 6.14  # 50 ms away, behind a queue of up to 80 ms on w4's link
        await node.sleep(3)
        assert node.poll("large") is None  # half a message is none
        node.note("w4 died", 1)
        await self.the_rest(node)

    async def w2(self, node: Node) -> None:
        await self.until(node, 2)
        node.publish(filled(2), 1)
        # The third of a ring does not hear of it: it waits for its own neighbour, here for w1, which never comes.
        ring = node.spawn(node.reduce_scatter(["w1", "w2", "w3"], "ring", filled(1), deadline=2))
        tries = [
            node.pull("w3", name="never", deadline=30), node.gather("never", ["w1", "w3"]), node.recv("never", "w3"),
            node.all_reduce(["w2", "w3"], "never", filled(1)),
            node.pull("w3"), node.exchange("w3", deadline=30),
        ]  # fmt: skip
        for one in [node.spawn(trying) for trying in tries[:4]]:
            await loses("w3", one)
            assert 3.06 <= node.now() < 3.11  # 60 ms away, and a queue of up to 40 ms on w2's link
        for trying in tries[4:]:
            await loses("w3", trying)
        try:
            await ring
        except DeadlinePassed:
            assert 4 <= node.now() < 4.001
        # The dead take nobody along: what goes to both goes to the living.
        whole = (await node.recv("to both", "w1")).vector
        assert whole.tolist() == [3] * MEGABYTE
        await node.send("w1", "thanks", version=3)
        node.note("w3 died", 1)
        await self.until(node, 7)
        # Nobody tells w2 of w4's end, as they have never met; who asks finds nobody there.
        try:
            await node.recv("never", "w4", deadline=0.5)
        except DeadlinePassed:
            await loses("w4", node.exchange("w4", deadline=5))
        assert 7.5 < node.now() < 7.7
        for trying in (
            node.recv("never", "w4"),
            node.send("w4", "x"),
            node.send("w4", "x", filled(1)),
            node.pull("w4"),
        ):
            await loses("w4", trying)
        node.note("w4 died", 1)
        await self.the_rest(node)

    async def the_rest(self, node: Node) -> None:
        await self.until(node, 10)
        assert (await node.all_reduce(["w1", "w2"], "living", filled(node.rank + 1))).tolist() == [3] * 5
        await node.exchange("w2" if node.rank == 0 else "w1")
        if node.rank == 0:
            assert (await node.pull("w2")).vector.tolist() == [2] * 5
        node.note("the rest", 1)

    async def w3(self, node: Node) -> None:
        await node.send("w1", "last words", filled(7), version=1)
        await node.recv("large", "w1")
        node.note("got a message that could not have come", 0)

    async def w4(self, node: Node) -> None:
        await self.until(node, 5)
        await node.send("w1", "last words", filled(8), version=1)
        await self.until(node, 5.5)
        await node.send("w1", "large", filled(9, MEGABYTE))
        await node.sleep(100)
