"""Every verb of a node on the simulated network, with the awkward cases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from testbed.api import Algorithm, DeadlinePassed, Message, Node, NoHyper, PeerLost, Vector
from testbed.engines.sim.simulate import Deadlock
from testbed.engines.sim.trial import Trial, trial
from testbed.network.model import Channel
from testbed.network.presets import star
from testbed.spec.run import Failure, FlowModel

Act = Callable[[Node], Awaitable[None]]


def run(act: Act, workers: int = 3, horizon: float = 30.0, **changes: object) -> Trial:
    """A run in which every worker does the same."""

    class Scene(Algorithm[NoHyper]):
        async def worker(self, node: Node) -> None:
            await act(node)

    return trial(Scene, workers=workers, horizon=horizon, **changes)  # type: ignore[arg-type]


def values(left: Trial, name: str) -> list[float]:
    return [row["value"] for row in left.notes if row["name"] == name]


def filled(value: float, size: int = 5) -> Vector:
    return np.full(size, value, np.float32)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 1001])
def test_all_reduce_gives_the_sum_to_everyone(size: int) -> None:
    async def act(node: Node) -> None:
        total = await node.all_reduce(node.workers, "sum", np.arange(size, dtype=np.float32) * (node.rank + 1))
        np.testing.assert_array_equal(total, np.arange(size, dtype=np.float32) * 6)
        node.note("done", 1)

    assert values(run(act), "done") == [1, 1, 1]


def test_reduce_scatter_gives_each_member_its_part() -> None:
    async def act(node: Node) -> None:
        part = await node.reduce_scatter(node.workers, "sum", np.arange(7, dtype=np.float32))
        expected = [[0, 3, 6], [9, 12], [15, 18]][node.rank]
        assert part.tolist() == expected
        node.note("done", 1)

    assert values(run(act), "done") == [1, 1, 1]


def test_a_message_to_oneself_is_there_at_once() -> None:
    async def act(node: Node) -> None:
        await node.send(node.name, "note", filled(3), meta={"a": [1]})
        message = node.poll("note")
        assert message is not None and message.sender == node.name and message.meta == {"a": [1]}
        assert message.vector.tolist() == [3] * 5 and node.now() == 0
        node.note("done", 1)

    assert values(run(act), "done") == [1, 1, 1]


def test_a_pull_waits_for_a_later_version_and_sees_it_whole() -> None:
    async def act(node: Node) -> None:
        if node.rank == 0:
            model = filled(1, 5001)
            node.publish(model, 1)
            model[:] = 9  # the snapshot is the publisher's no more
            await node.sleep(1)
            node.publish(filled(2, 5001), 2)
        elif node.rank == 1:
            first = await node.pull("w1")
            later = await node.pull("w1", after=first.version)
            assert (first.version, later.version) == (1, 2)
            assert set(first.vector.tolist()) == {1} and set(later.vector.tolist()) == {2}
            assert node.now() > 1
            node.note("done", 1)
        else:
            with pytest.raises(DeadlinePassed):
                await node.pull("w1", name="nothing", deadline=0.5)
            assert node.now() == 0.5
            node.note("done", 1)

    assert values(run(act), "done") == [1, 1]


def test_exchanges_of_everyone_with_everyone_end_and_keep_the_sum() -> None:
    held: dict[str, Vector] = {}

    async def act(node: Node) -> None:
        held[node.name] = filled(node.rank)

        def take(message: Message) -> None:
            held[node.name] = (held[node.name] + message.vector) / 2

        node.on_exchange(lambda: held[node.name], take)
        for _ in range(30):
            await node.exchange(node.peers[node.rng.integers(len(node.peers))])
            await node.sleep(float(node.rng.random()) * 0.01)
        node.note("done", 1)

    left = run(act, workers=8, horizon=300.0)
    assert values(left, "done") == [1] * 8
    assert float(sum(v.sum() for v in held.values())) == pytest.approx(5 * 28, rel=1e-5)


def test_two_exchanges_that_cross_are_one() -> None:
    async def act(node: Node) -> None:
        taken: list[float] = []
        node.on_exchange(lambda: filled(node.rank), lambda message: taken.append(float(message.vector[0])))
        other = node.peers[0]
        message = await node.exchange(other)
        assert message.vector.tolist() == [1 - node.rank] * 5
        assert taken == [1 - node.rank]
        node.note("done", 1)

    assert values(run(act, workers=2), "done") == [1, 1]


def test_who_waits_for_whom_is_named_in_a_deadlock() -> None:
    async def act(node: Node) -> None:
        await node.recv("never", node.peers[0])

    with pytest.raises(Deadlock, match="w1 waits for 'never' from w2; w2 waits for 'never' from w1"):
        run(act, workers=2)


def test_a_peer_that_dies_is_named_after_the_way_of_its_reset() -> None:
    async def act(node: Node) -> None:
        if node.rank == 0:
            await node.send("w2", "hello")
            await node.sleep(100)
        elif node.rank == 1:
            await node.recv("hello")
            with pytest.raises(PeerLost, match="w1"):
                await node.recv("more", "w1")
            assert node.now() == pytest.approx(2 + 0.020)  # two links of 10 ms
            with pytest.raises(PeerLost):
                await node.send("w1", "anybody?")
            node.note("done", 1)

    assert values(run(act, workers=2, failures=(Failure("w1", 2.0),)), "done") == [1]


def test_what_was_spawned_runs_beside_and_gives_its_result() -> None:
    async def slow(node: Node) -> float:
        await node.sleep(1)
        return node.now()

    async def act(node: Node) -> None:
        activity = node.spawn(slow(node))
        await node.sleep(0.5)
        assert not activity.done
        assert await activity == 1.0 and activity.done
        node.note("done", 1)

    assert values(run(act), "done") == [1, 1, 1]


def test_a_transfer_alone_takes_latency_and_bytes_by_rate() -> None:
    async def act(node: Node) -> None:
        if node.rank == 0:
            await node.send("w2", "hello", filled(0, 1))  # opens the connection
            await node.sleep(5 - node.now())
            await node.send("w2", "bulk", filled(1, 250_000))
        elif node.rank == 1:
            await node.recv("bulk")
            node.note("at", node.now())

    channel = Channel(10e6, 0.010)
    left = run(act, workers=2, network=star([(channel, channel)] * 2), sim=FlowModel(slow_start=False))
    size = next(row["bytes"] for row in left.messages if row["tag"] == "bulk")
    assert values(left, "at") == [pytest.approx(5 + 0.020 + size * 8 * 1514 / 1448 / 10e6, abs=1e-6)]


def test_the_same_seed_gives_the_same_rows() -> None:
    async def act(node: Node) -> None:
        model = node.initial_model()
        for version in range(5):
            model = await node.train(model, 2)
            await node.send(node.peers[0], "model", model, version=version)

    first, second = run(act), run(act)
    assert first.messages == second.messages and first.spans == second.spans
