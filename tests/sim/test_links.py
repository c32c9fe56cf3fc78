"""What a simulated run writes down about its ports, against bytes that were counted by hand.

A message's bytes are 32 of header, tag and meta, filled up to a multiple of 16, and 4 a number. On the wire each
full segment of 1,448 bytes is a frame of 1,514.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from testbed.api import Algorithm, Node, NoHyper
from testbed.engines.sim.trial import Trial, trial
from testbed.network.model import Channel
from testbed.network.presets import star, two_racks
from testbed.spec.run import FlowModel

HEAD = 48
"""bytes; 32 + 4 of the tag "bulk", filled up."""
FAST, SLOW = Channel(20e6, 0.010), Channel(5e6, 0.030)


def of_segments(count: int) -> np.ndarray:
    """A vector that fills so many segments to the last byte, with its head."""
    return np.ones((1448 * count - HEAD) // 4, np.float32)


class ThereAndBack(Algorithm[NoHyper]):
    """w1 sends 100 segments to w2 at 5.2 s, w2 sends 10 to w1 at 10.2 s, and 1 at 20.2 s."""

    async def worker(self, node: Node) -> None:
        if node.rank == 0:
            await node.sleep(5.2)
            await node.send("w2", "bulk", of_segments(100))
        elif node.rank == 1:
            for moment, segments in ((10.2, 10), (20.2, 1)):
                await node.sleep(moment - node.now())
                await node.send("w1", "bulk", of_segments(segments))


def port(left: Trial, name: str, column: str = "bytes") -> list[int]:
    """A port's readings in the order of time."""
    return [row[column] for row in left.links if row["port"] == name]


def steps(*changes: tuple[int, int], readings: int = 41) -> list[int]:
    """Readings that change to the given values from the given readings on."""
    return [([0] + [value for first, value in changes if first <= number])[-1] for number in range(readings)]


@pytest.mark.parametrize("slow_start", [True, False])
def test_bytes_and_packets_of_each_port_and_direction(slow_start: bool) -> None:
    network = star([(FAST, SLOW), (SLOW, FAST), (FAST, FAST)])
    left = trial(ThereAndBack, horizon=40.0, network=network, sim=FlowModel(slow_start))
    assert [row["bytes"] for row in left.messages] == [144_800, 14_480, 1_448]
    # A reading each second: what was sent in second 5 is in reading 6. All transfers take less than 0.8 s.
    forth = steps((6, 100 * 1514))
    back = steps((11, 10 * 1514), (21, 11 * 1514))
    assert port(left, "site1>hub") == port(left, "hub>site2") == forth
    assert port(left, "site2>hub") == port(left, "hub>site1") == back
    assert port(left, "site3>hub") == port(left, "hub>site3") == steps()
    assert port(left, "site1>hub", "packets") == steps((6, 100))
    assert port(left, "hub>site1", "packets") == steps((11, 10), (21, 11))
    assert {row["drops"] for row in left.links} == {0}
    assert len({row["port"] for row in left.links}) == 6  # unshaped local networks are not read


def test_readings_are_a_fortieth_of_the_horizon_apart() -> None:
    left = trial(ThereAndBack, horizon=30.0, network=star([(FAST, FAST)] * 2))
    times = sorted({row["time"] for row in left.links})
    assert times == [30.0 * number / 40 for number in range(41)]
    assert len(left.links) == 41 * 4


def test_shaped_local_networks_are_ports_too() -> None:
    network = two_racks(2, Channel(100e6, 0.001), (FAST, FAST))
    left = trial(ThereAndBack, horizon=40.0, network=network)
    assert port(left, "w1>rack-a") == port(left, "rack-a>rack-b") == port(left, "rack-b>w2") == steps((6, 100 * 1514))
    back = steps((11, 10 * 1514), (21, 11 * 1514))
    assert port(left, "w2>rack-b") == port(left, "rack-b>rack-a") == port(left, "rack-a>w1") == back
    assert port(left, "server>rack-a") == port(left, "rack-a>server") == steps()


def test_the_ports_of_a_busy_run_add_up_to_its_messages() -> None:
    """Small messages, vectors of any length and answers; none is under way at the end."""

    class Chatter(Algorithm[NoHyper]):
        async def worker(self, node: Node) -> None:
            node.publish(np.zeros(20_000, np.float32), 0)
            for _ in range(10):
                peer = node.peers[int(node.rng.integers(len(node.peers)))]
                await node.send(peer, "word", meta={"step": 1})
                await node.send(peer, "vector", np.zeros(int(node.rng.integers(1, 50_000)), np.float32))
                await node.pull(peer)

    left = trial(Chatter, workers=4, horizon=100.0)
    assert len(left.messages) == 4 * 10 * 4
    for number in range(1, 5):
        for name, end in ((f"site{number}>hub", "source"), (f"hub>site{number}", "target")):
            readings = port(left, name)
            assert readings == sorted(readings)
            assert readings[-1] == pytest.approx(on_the_wire(left.messages, end, f"w{number}"), abs=1)
            assert port(left, name, "packets")[-1] == pytest.approx(readings[-1] / 1514, abs=1)


def on_the_wire(messages: Sequence[dict[str, Any]], end: str, name: str) -> float:
    """Bytes of all messages with a node at one end, with their frames' headers."""
    return sum(row["bytes"] for row in messages if row[end] == name) * 1514 / 1448
