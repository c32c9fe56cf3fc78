"""Scenes of messages, computing and activities that must go the same way on every engine.

Each scene has its own stretch of time on all nodes. Whoever gets through notes its name; whoever does not
notes what went wrong.
"""

from __future__ import annotations

import numpy as np

from testbed.api import Algorithm, DeadlinePassed, Node, NoHyper, PeerLost, Vector, parts

SCENES = (
    "lengths",
    "oneself",
    "late_vectors",
    "late_words",
    "a_late_broadcast",
    "deadlines",
    "activities",
    "computing",
)
STRETCH = 20.0
"""seconds that a scene has."""
MEGABYTE = 250_000
"""float32 numbers; 1.6 s of w3's link, 0.8 s of w2's."""


def filled(value: float, size: int = MEGABYTE) -> Vector:
    return np.full(size, value, np.float32)


def soon(node: Node, due: float) -> bool:
    """A deadline passes at its time; on a real stack a timer is a few microseconds late."""
    return due - 1e-9 <= node.now() < due + 1e-3


def line_of(error: BaseException) -> int:
    """The innermost line of this file that the error went through."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if "/awkward" in trace.tb_frame.f_code.co_filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class Messages(Algorithm[NoHyper]):
    roles = ("monitor",)

    async def monitor(self, node: Node) -> None:
        came = await node.gather("done", node.workers)
        node.note("all done", len(came))

    async def worker(self, node: Node) -> None:
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
        await node.send(node.members("monitor")[0], "done")

    async def lengths(self, node: Node) -> None:
        right, left = node.workers[(node.rank + 1) % 3], node.workers[(node.rank + 2) % 3]
        given: list[Vector] = []
        node.on_exchange(lambda: filled(node.rank, size), lambda message: given.append(message.vector))
        for size in (0, 1, 3, 7, 1001):
            counted = np.arange(size, dtype=np.float32)
            # A slice with gaps is sent as it looks; what came is one's own.
            await node.send(right, "ring", (np.arange(2 * size, dtype=np.float32) + 10 * node.rank)[::2], version=size)
            came = (await node.recv("ring", left, version=size)).vector
            np.testing.assert_array_equal(came, 2 * counted + 10 * ((node.rank + 2) % 3))
            came += 1
            node.publish(counted * node.rank, size, name=f"of {size}")
            pulled = await node.pull(right, name=f"of {size}")
            np.testing.assert_array_equal(pulled.vector, counted * ((node.rank + 1) % 3))
            assert pulled.version == size and pulled.sender == right
            if node.rank == 0:
                np.testing.assert_array_equal((await node.exchange("w2")).vector, filled(1, size))
            total = await node.all_reduce(node.workers, "sum", counted * (node.rank + 1))
            np.testing.assert_array_equal(total, counted * 6)
            part = await node.reduce_scatter(node.workers, "part", counted * (node.rank + 1))
            np.testing.assert_array_equal(part, (counted * 6)[parts(size, 3)[node.rank]])
            mine = filled(node.rank, (size, 0, size // 2)[node.rank])
            together = await node.all_gather(node.workers, "parts", mine)
            np.testing.assert_array_equal(together, np.repeat([0, 2], [size, size // 2]))
            if node.rank == 1:
                await node.broadcast(node.workers, "all", counted, version=size)
            np.testing.assert_array_equal((await node.recv("all", "w2", version=size)).vector, counted)
            await node.send("w1", "back", filled(node.rank, size))
            if node.rank == 0:
                back = await node.gather("back", ["w3", "w1", "w2"])
                assert [message.sender for message in back] == ["w3", "w1", "w2"]
                np.testing.assert_array_equal(np.stack([m.vector for m in back]), np.outer([2, 0, 1], filled(1, size)))
        # w1 and w2 saw each exchange once, whoever asked for it.
        assert [len(vector) for vector in given] == ([] if node.rank == 2 else [0, 1, 3, 7, 1001])

    async def oneself(self, node: Node) -> None:
        begun = node.now()
        mine = filled(1, 3)
        await node.send(node.name, "word", version=4, meta={"a": [1, None]})
        await node.send(node.name, "vector", mine, version=5)
        mine[:] = 7
        word, vector = node.poll("word"), node.poll("vector", node.name, version=5)
        assert word is not None and vector is not None and node.poll("vector") is None
        assert (word.sender, word.version, word.meta, len(word.vector)) == (node.name, 4, {"a": [1, None]}, 0)
        assert vector.vector.tolist() == [1, 1, 1]
        waiting = node.spawn(node.recv("later", node.name))
        await node.sleep(0)
        await node.send(node.name, "later")
        assert (await waiting).sender == node.name
        np.testing.assert_array_equal(await node.all_reduce([node.name], "alone", mine), mine)
        np.testing.assert_array_equal(await node.all_gather([node.name], "alone", mine), mine)
        node.publish(mine, 1, name="own")
        mine[:] = 8
        pulled = await node.pull(node.name, name="own")
        assert (pulled.sender, pulled.version, pulled.vector.tolist()) == (node.name, 1, [7, 7, 7])
        pulled.vector[:] = 9
        assert (await node.pull(node.name, name="own")).vector.tolist() == [7, 7, 7]
        assert node.now() == begun  # none of this takes time
        await self.refused(node, node.exchange(node.name), ValueError)
        pulling = node.spawn(node.pull(node.name, name="own", after=1))
        await node.sleep(1)
        assert not pulling.done
        node.publish(mine, 2, name="own")
        assert (await pulling).version == 2 and soon(node, begun + 1)
        await self.refused(node, node.pull(node.name, name="own", after=2, deadline=0.5), DeadlinePassed)
        assert soon(node, begun + 1.5)
        sending = node.spawn(node.broadcast(node.workers, "to all", filled(node.rank)))
        await node.sleep(0)
        own = node.poll("to all")
        assert own is not None and own.sender == node.name
        assert node.poll("to all") is None and soon(node, begun + 1.5)  # 1 MB takes its time to the others
        await node.send(node.name, "to all", own.vector)
        everyone = await node.gather("to all", node.workers)
        assert [int(message.vector.mean()) for message in everyone] == [0, 1, 2]
        await sending

    async def refused(self, node: Node, trying: object, kind: type[Exception]) -> Exception:
        try:
            await trying  # type: ignore[misc]
        except kind as error:
            return error
        raise AssertionError(f"{kind.__name__} was due at {node.now()}")

    async def late_vectors(self, node: Node) -> None:
        if node.rank == 0:
            begun = node.now()
            await node.send("w3", "x", filled(0), version=0)
            assert soon(node, begun)  # one message may wait unsent
            late = node.spawn(
                self.refused(node, node.send("w3", "x", filled(1), version=1, deadline=0.3), DeadlinePassed)
            )
            queued = node.spawn(node.send("w3", "x", filled(2, 7), version=2))
            await late
            assert soon(node, begun + 0.3)
            for version, size in ((3, 3), (4, MEGABYTE), (5, 0), (6, MEGABYTE)):
                await node.send("w3", "x", filled(version, size), version=version)
            await queued
            answers = [await node.recv("answer", "w3") for _ in range(3)]
            assert [(message.version, len(message.vector)) for message in answers] == [(0, 0), (1, MEGABYTE), (2, 3)]
            await node.send("w3", "no more")
        elif node.rank == 2:
            came = [await node.recv("x", "w1") for _ in range(6)]
            assert [message.version for message in came] == [0, 2, 3, 4, 5, 6]
            assert all((message.vector == message.version).all() for message in came)
            assert [len(message.vector) for message in came] == [MEGABYTE, 7, 3, MEGABYTE, 0, MEGABYTE]
            for version, size in enumerate((0, MEGABYTE, 3)):
                await node.send("w1", "answer", filled(version, size), version=version)
            await node.recv("no more")
            assert node.poll("x") is None

    async def late_words(self, node: Node) -> None:
        large = {"word": "x" * 30_000}  # 48 ms of w3's link
        if node.rank == 0:
            begun = node.now()
            sending = [node.spawn(node.send("w3", "word", version=k, meta=large)) for k in range(8)]
            await node.sleep(0)
            await self.refused(node, node.send("w3", "word", version=8, meta=large, deadline=0.1), DeadlinePassed)
            assert soon(node, begun + 0.1)
            await node.send("w3", "word", version=9)
            for one in sending:
                await one
            await node.send("w3", "vector", filled(1, 5))  # the connections live
        elif node.rank == 2:
            came = [await node.recv("word", "w1") for _ in range(9)]
            assert [message.version for message in came] == [*range(8), 9]
            assert (await node.recv("vector", "w1")).vector.tolist() == [1] * 5

    async def a_late_broadcast(self, node: Node) -> None:
        if node.rank == 0:
            begun = node.now()
            await node.broadcast(node.peers, "y", filled(0), version=0)
            # w2's link is free for the next after 0.8 s, w3's after 1.6 s: it leaves for w2 only.
            await self.refused(
                node, node.broadcast(node.peers, "y", filled(1), version=1, deadline=1.3), DeadlinePassed
            )
            assert soon(node, begun + 1.3)
            await node.broadcast(node.peers, "y", version=2)
            await node.broadcast(node.peers, "y", filled(3), version=3)
        else:
            expected = [0, 1, 2, 3] if node.rank == 1 else [0, 2, 3]
            came = [await node.recv("y", "w1") for _ in expected]
            assert sorted(message.version for message in came) == expected  # the word may have overtaken
            assert all((message.vector == message.version).all() for message in came)

    async def deadlines(self, node: Node) -> None:
        begun = node.now()
        if node.rank == 0:
            await self.deadlines_of_waiting(node, begun)
        elif node.rank == 1:
            await node.send("w1", "g", version=1)
            await node.send("w1", "g", version=2)
            for version in (3, 1, 2):
                await node.send("w1", "v", version=version)
            await self.refused(node, node.pull("w1", name="large", deadline=0.2), DeadlinePassed)
            assert soon(node, begun + 0.2), node.now() - begun  # before anything was published
            await node.sleep(begun + 1.5 - node.now())
            await self.refused(node, node.pull("w1", name="large", deadline=0.3), DeadlinePassed)
            assert soon(node, begun + 1.8)  # in the midst of 1 MB
            assert (await node.pull("w1", name="small")).vector.tolist() == [5]
            assert (await node.pull("w1", name="large")).vector.tolist() == [6] * MEGABYTE
        else:
            await node.sleep(1)
            await node.send("w1", "g", version=3)
        for trying in (node.recv("x", "w9"), node.send("w9", "x"), node.pull("w9"), node.exchange("w9")):
            lost = await self.refused(node, trying, PeerLost)
            assert isinstance(lost, PeerLost) and lost.peer == "w9"

    async def deadlines_of_waiting(self, node: Node, begun: float) -> None:
        await self.refused(node, node.recv("never", deadline=0), DeadlinePassed)
        await self.refused(node, node.recv("never", "w2", version=1, deadline=0.25), DeadlinePassed)
        assert soon(node, begun + 0.25)
        await self.refused(node, node.gather("g", ["w2", "w3"], deadline=0.25), DeadlinePassed)
        assert soon(node, begun + 0.5)
        first = node.poll("g")  # what had come is unread again, and before what came after it
        assert first is not None and (first.sender, first.version) == ("w2", 1)
        assert [m.version for m in await node.gather("g", ["w2", "w3"], deadline=5)] == [2, 3]
        assert 1.05 < node.now() - begun < 1.1  # sent after 1 s, 50 ms away
        chosen = [await node.recv("v", version=1), await node.recv("v", deadline=0)]
        assert [m.version for m in chosen] == [1, 3]
        assert node.poll("v", version=3) is None and node.poll("v", "w3") is None
        left = node.poll("v", "w2", version=2)
        assert left is not None and node.poll("v") is None
        node.publish(filled(6), 1, name="large")
        node.publish(filled(5, 1), 1, name="small")

    async def activities(self, node: Node) -> None:
        begun = node.now()

        async def slow() -> float:
            await node.sleep(2)
            return node.now() - begun

        async def wrong() -> None:
            await node.sleep(0.5)
            raise KeyError("mine")

        working, failing = node.spawn(slow()), node.spawn(wrong())
        never, unbegun = node.spawn(node.recv("later")), node.spawn(slow())
        unbegun.cancel()
        await node.sleep(1)
        assert (working.done, failing.done, never.done, unbegun.done) == (False, True, False, True)
        assert (await self.refused(node, failing, KeyError)).args == ("mine",)  # also when it has ended long ago
        never.cancel()
        for cancelled in (never, unbegun):
            try:
                await cancelled
            except BaseException as error:
                assert type(error).__name__ == "CancelledError"
            else:
                raise AssertionError("what was cancelled has no result")
            assert cancelled.done
        await node.send(node.workers[(node.rank + 1) % 3], "later", version=7)
        assert (await node.recv("later")).version == 7  # whoever was cancelled takes no message along
        assert abs(await working - 2) < 1e-3 and working.done and soon(node, begun + 2)
        working.cancel()  # too late
        assert abs(await working - 2) < 1e-3

    async def computing(self, node: Node) -> None:
        step = 0.02 * (1, 1, 2)[node.rank]
        model, begun = node.initial_model(), node.now()
        half = await node.gradient(model, batch=8)
        assert soon(node, begun + step / 2)
        both = [node.spawn(node.train(model, steps, batch=4)) for steps in (2, 4)]
        first, _ = await both[0], await both[1]
        assert soon(node, begun + step / 2 + step * 6 / 4)  # one after the other, a quarter of a step each
        begun = node.now()
        on = await node.train(model, 2)
        on = await node.train(on, 3, reset=False)
        anew = await node.train(on, 1)
        assert soon(node, begun + 6 * step)
        np.testing.assert_array_equal(await node.train(model, 0), model)
        np.testing.assert_array_equal(model, node.initial_model())
        for name, vector in (("half", half.vector), ("first", first), ("on", on), ("anew", anew)):
            node.note(f"norm of {name}", float(np.linalg.norm(vector.astype(np.float64) - model)))
