"""Scenes of snapshots, exchanges and groups that must go the same way on every engine.

Each scene has its own stretch of time on all nodes. Whoever gets through notes its name; whoever does not
notes what went wrong.
"""

from __future__ import annotations

import numpy as np

from testbed.api import Algorithm, DeadlinePassed, Message, Node, NoHyper, Vector

SCENES = ("given_up", "crossing", "a_chain", "everyone_asks", "replaced", "groups_that_fail", "at_the_same_moment")
STRETCH = 40.0
"""seconds that a scene has."""


def filled(value: float, size: int = 5) -> Vector:
    return np.full(size, value, np.float32)


def soon(node: Node, due: float) -> bool:
    """A deadline passes at its time; on a real stack a timer is a few microseconds late."""
    return due - 1e-9 <= node.now() < due + 1e-3


async def passes(trying: object) -> None:
    try:
        await trying  # type: ignore[misc]
    except DeadlinePassed:
        return
    raise AssertionError("the deadline was to pass")


def line_of(error: BaseException) -> int:
    """The innermost line of this file that the error went through."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if "/awkward" in trace.tb_frame.f_code.co_filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class Sharing(Algorithm[NoHyper]):
    async def worker(self, node: Node) -> None:
        self.held, self.taken = filled(node.rank), 0
        await node.broadcast(node.peers, "hello")  # connections are open from here on
        await node.gather("hello", node.peers)
        for number, name in enumerate(SCENES):
            await node.sleep(number * STRETCH + 1 - node.now())
            acting = node.spawn(getattr(self, name)(node))
            await node.sleep((number + 0.95) * STRETCH - node.now())
            if not acting.done:
                acting.cancel()
                node.note(f"{name} is still under way", 0)
                continue
            try:
                await acting
            except Exception as error:
                node.note(f"{name}: {error!r} at line {line_of(error)}", 0)
            else:
                node.note(name, 1)

    def meet(self, node: Node, value: float) -> None:
        """From here on exchanges average; `value` is what this node begins with."""
        self.held, self.taken = filled(value), 0
        node.on_exchange(lambda: self.held, self.take)

    def take(self, message: Message) -> None:
        self.held = (self.held + message.vector) / 2
        self.taken += 1

    async def given_up(self, node: Node) -> None:
        """w2 meets nobody before 10 s, so whoever asks it earlier waits, and is busy meanwhile."""
        begun = node.now()
        if node.rank != 1:
            self.meet(node, 4 * node.rank)
        if node.rank == 0:
            await node.sleep(0.5)
            await passes(node.exchange("w3", deadline=1))  # w3 waits for w2; the lower number waits in its queue
            assert soon(node, begun + 1.5)
            await node.sleep(begun + 5 - node.now())
            await passes(node.exchange("w2", deadline=2))
            assert soon(node, begun + 7)
        elif node.rank == 2:
            await passes(node.exchange("w2", deadline=3))
            assert soon(node, begun + 3)
            await node.sleep(begun + 5.5 - node.now())
            await passes(node.exchange("w1", deadline=0.8))  # w1 waits for w2; the higher number is told: busy
            assert soon(node, begun + 6.3)
        await node.sleep(begun + 10 - node.now())
        if node.rank == 1:
            self.meet(node, 2)
        await node.sleep(1)
        # Nobody has taken what was given up: a request was withdrawn before its turn came.
        assert self.taken == 0 and self.held.tolist() == [(0, 2, 8)[node.rank]] * 5
        if node.rank == 2:
            assert (await node.exchange("w1")).vector.tolist() == [0] * 5
        await node.sleep(begun + 13 - node.now())
        if node.rank == 0:
            assert (await node.exchange("w2")).vector.tolist() == [2] * 5
        await node.sleep(begun + 15 - node.now())
        if node.rank == 2:
            assert (await node.exchange("w2")).vector.tolist() == [3] * 5
        await node.sleep(begun + 17 - node.now())
        # 0 2 8; w1 and w3: 4 2 4; w1 and w2: 3 3 4; w2 and w3: 3 3.5 3.5
        assert self.held.tolist() == [(3, 3.5, 3.5)[node.rank]] * 5 and self.taken == 2

    async def crossing(self, node: Node) -> None:
        self.meet(node, node.rank)
        for number in range(3):
            await node.sleep(2)
            if node.rank < 2:
                message = await node.exchange(node.workers[1 - node.rank])
                # Requests that cross are one exchange: (0, 1), then (0.5, 0.5) for good.
                assert message.vector.tolist() == [1 - node.rank if number == 0 else 0.5] * 5
                assert self.taken == number + 1 and self.held.tolist() == [0.5] * 5
        await node.sleep(2)
        assert self.taken == (3, 3, 0)[node.rank]

    async def a_chain(self, node: Node) -> None:
        """w1 asks w2, w2 asks w3, w3 asks w1, all at the same moment, again and again."""
        self.meet(node, 2.0**node.rank)
        for turn in range(10):
            await node.exchange(node.workers[(node.rank + (1 if turn % 2 else 2)) % 3])
        await self.sum_is_kept(node, 1 + 2 + 4)

    async def everyone_asks(self, node: Node) -> None:
        self.meet(node, 2.0**node.rank)
        for _ in range(12):
            await node.exchange(node.peers[node.rng.integers(2)])
            await node.sleep(float(node.rng.random()) * 0.05)
        await self.sum_is_kept(node, 1 + 2 + 4)

    async def sum_is_kept(self, node: Node, expected: float) -> None:
        for message in await self.all_said(node, "asked"):
            assert message.sender in node.workers  # from here on nobody asks
        total = await node.all_reduce(node.workers, "held", self.held)
        np.testing.assert_allclose(total, expected, atol=1e-4)

    async def all_said(self, node: Node, tag: str) -> list[Message]:
        await node.broadcast(node.workers, tag)
        return await node.gather(tag, node.workers)

    async def replaced(self, node: Node) -> None:
        """400 kB take 0.6 s to w3 and 0.3 s to w2, and are replaced twenty times a second."""
        begun = node.now()
        if node.rank == 0:
            shown = filled(0, 100_000)
            for version in range(120):
                shown[:] = version  # what is published is a copy
                node.publish(shown, version)
                await node.sleep(0.05)
            shown[:] = -1
            return
        seen = [await node.pull("w1")]
        while seen[-1].version < 119:
            seen.append(await node.pull("w1", after=seen[-1].version))
        for message in seen:
            assert len(message.vector) == 100_000 and (message.vector == message.version).all()
        versions = [message.version for message in seen]
        assert versions == sorted(set(versions))
        # A pull takes the time of the newest snapshot; a few to many were replaced on the way.
        link = (10e6, 5e6)[node.rank - 1]
        assert 2 < len(versions) <= 1 + (node.now() - begun) / (3.2e6 / link)
        assert max(np.diff(versions)) >= 3.2e6 / link / 0.05 - 1
        again = await node.pull("w1")
        again.vector[:] = 0
        assert again.version == 119 and (await node.pull("w1", deadline=5)).vector.tolist() == [119] * 100_000

    async def groups_that_fail(self, node: Node) -> None:
        begun = node.now()
        if node.rank < 2:
            for number, verb in enumerate((node.all_reduce, node.reduce_scatter, node.all_gather)):
                await passes(verb(node.workers, f"without w3 {number}", filled(1), deadline=0.5))
                assert soon(node, begun + 0.5 * (number + 1))
            pair = await node.all_reduce(node.workers[:2], "without w3", filled(node.rank + 1))
            assert pair.tolist() == [3] * 5
        else:
            for group in (["w1", "w2"], ["w3", "w3"]):
                try:
                    await node.all_reduce(group, "not mine", filled(1))
                except ValueError as error:
                    assert "w3" in str(error)
                else:
                    raise AssertionError("a group of others was to be refused")
        await self.all_said(node, "ready")
        sums = [node.spawn(node.all_reduce(node.workers, f"sum {k}", filled(k + node.rank, 1001))) for k in range(4)]
        for k, total in enumerate(sums):  # side by side, each under its own tag
            assert (await total).tolist() == [3 * k + 3] * 1001
        for k in range(3):  # one after the other, under one tag
            assert (await node.all_reduce(node.workers, "again", filled(k))).tolist() == [3 * k] * 5

    async def at_the_same_moment(self, node: Node) -> None:
        """Two wait for the same message; the first gives up, and the second must get it."""
        if node.rank == 0:
            first, second = node.spawn(node.gather("m", ["w2", "w3"], deadline=2)), node.spawn(node.recv("m", "w2"))
            await passes(first)
            assert (await second).version == 1
            assert node.poll("m") is None
        elif node.rank == 1:
            await node.send("w1", "m", version=1)
