"""What a calibration runs: the first seed of every algorithm, and probes where a flow model is weakest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.calibration.plan import first_seed, probes, slowest_pair
from testbed.network.model import Channel, Link, Network, Site
from testbed.spec.run import Failure
from tests.pure.made_up_results import run_spec, star

MODEL = 1_000_000


def link(a: str, b: str, forward: float, backward: float, delay: float) -> Link:
    return Link(a, b, Channel(forward, delay), Channel(backward, delay))


def mesh(back: float = 5e6) -> Network:
    """Three sites without a server. Towards c and from it 5 Mbit/s; a is nearer to it than b, with 30 ms there and
    back. `back` is the rate from c to b.
    """
    sites = tuple(Site(name, (f"w{i}",)) for i, name in enumerate("abc"))
    links = (
        link("a", "b", 10e6, 10e6, 0.010), link("b", "c", 5e6, back, 0.020), link("a", "c", 5e6, 5e6, 0.015),
    )  # fmt: skip
    return Network("mesh", sites, links, ("w0", "w1", "w2"))


def test_every_algorithm_is_compared_once() -> None:
    runs = [run_spec(label, seed) for label in ("ssgd", "fedavg") for seed in (4, 2)]
    assert first_seed(runs) == [run_spec("ssgd", 4), run_spec("fedavg", 4)]


def test_the_slowest_pair_of_a_star_is_a_worker_and_the_server() -> None:
    assert slowest_pair(star((100e6, 10e6))) == ("w1", "ps")
    # w0 and w1 are as slow as each other, and w1 is twice as far from the server.
    assert slowest_pair(star((10e6, 10e6))) == ("w0", "ps")


def test_the_slowest_pair_of_a_mesh_is_the_nearest_of_the_slowest() -> None:
    assert slowest_pair(mesh()) == ("w0", "w2")


def test_the_slower_direction_decides() -> None:
    assert slowest_pair(mesh(back=2e6)) == ("w2", "w1")


def test_one_host_alone_is_no_pair_and_has_no_probe() -> None:
    alone = Network("alone", (Site("a", ("w0",)),), (), ("w0",))
    assert slowest_pair(alone) is None
    assert probes(run_spec("ssgd", 1, network=alone), MODEL) == []


def test_hosts_that_only_route_are_not_probed() -> None:
    far = Network("far", (Site("a", ("w0", "idle")), Site("b", ("w1",))), (link("a", "b", 1e6, 1e6, 0.01),), ("w0",))
    assert slowest_pair(far) is None


def test_a_star_is_probed_both_ways_on_its_slowest_link_and_into_its_server() -> None:
    run = replace(run_spec("fedavg", 3, "demo-sim"), engine="sim", failures=(Failure("w0", 5.0),))
    push, pull, into = probes(run, MODEL)
    placed = [{role.role: role.hosts for role in probe.network.roles} for probe in (push, pull, into)]
    assert placed == [{"left": ("w0",), "right": ("ps",)}, {"left": ("w0",), "right": ("ps",)}, {"sink": ("ps",)}]
    assert [probe.algorithm.label for probe in (push, pull, into)] == ["both-ways-push", "both-ways-pull", "into-one"]
    assert [probe.algorithm.hyper for probe in (push, pull, into)] == [
        {"messages": 10, "pull": False}, {"messages": 10, "pull": True}, {"messages": 10, "idle": ""},
    ]  # fmt: skip
    for probe in (push, pull, into):
        assert (probe.experiment, probe.engine, probe.seed, probe.failures) == ("sim", "sim", 3, ())
        assert replace(probe.network, roles=()) == run.network
        assert (probe.tcp, probe.workload) == (run.tcp, run.workload)


def test_a_probe_has_ten_times_the_time_that_its_bytes_need() -> None:
    push, pull, into = probes(run_spec("ssgd", 1), MODEL)
    # 10 MB over 10 Mbit/s are 8 s, ten round trips of 20 ms 0.2 s, and a second to spare.
    assert push.horizon.time == pull.horizon.time == pytest.approx(10 * (8 + 0.2 + 1))
    # 20 MB, as if all came through the slowest link, and ten round trips of the farthest worker, 40 ms.
    assert into.horizon.time == pytest.approx(10 * (16 + 0.4 + 1))


@pytest.mark.parametrize(("size", "messages"), [(1000, 10), (2_000_000, 5), (3_000_000, 3), (90_000_000, 1)])
def test_large_models_are_sent_less_often(size: int, messages: int) -> None:
    """Two senders, 20 MB in all."""
    assert [probe.algorithm.hyper["messages"] for probe in probes(run_spec("ssgd", 1), size)] == [messages] * 3


def test_without_a_server_all_send_to_the_first_worker_which_sends_nothing() -> None:
    into = probes(run_spec("ssgd", 1, network=mesh()), MODEL)[-1]
    assert [(role.role, role.hosts) for role in into.network.roles] == [("sink", ("w0",))]
    assert into.algorithm.hyper == {"messages": 10, "idle": "w0"}
    # 20 MB over the 5 Mbit/s of w2 are 32 s; w2 is 30 ms away there and back.
    assert into.horizon.time == pytest.approx(10 * (32 + 0.3 + 1))
