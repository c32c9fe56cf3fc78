"""Facts about the preset networks."""

import dataclasses

import pytest

from testbed.network.model import Channel, Link, Network, Site
from testbed.network.presets import star, two_racks
from testbed.network.routes import bottleneck, round_trip, site_paths

UP, DOWN = Channel(rate=10e6, delay=0.02), Channel(rate=50e6, delay=0.03)
LAN = Channel(rate=1e9, delay=0.001)


def test_a_star_has_a_site_per_worker_and_the_server_in_the_middle() -> None:
    network = star([(UP, DOWN)] * 3, LAN)
    assert network.workers == ("w1", "w2", "w3")
    assert network.server == "server"
    assert network.site_of("server").name == "hub"
    assert len(network.sites) == 4 and len(network.links) == 3
    assert all(network.site_of(worker).hosts == (worker,) for worker in network.workers)
    assert bottleneck(network, "w2", "server") == UP.rate
    assert bottleneck(network, "server", "w2") == DOWN.rate
    assert round_trip(network, "w2", "server") == pytest.approx(0.02 + 0.03 + 4 * 0.001)
    assert site_paths(network)["site1"]["site3"] == ["site1", "hub", "site3"]


def test_a_star_keeps_the_order_of_its_links() -> None:
    fast, slow = Channel(rate=100e6, delay=0.01), Channel(rate=10e6, delay=0.1)
    network = star([(fast, fast), (slow, slow)])
    assert bottleneck(network, "w1", "server") == 100e6
    assert round_trip(network, "w2", "server") == pytest.approx(0.2)


@pytest.mark.parametrize(("workers", "here", "there"), [(8, 4, 4), (5, 3, 2), (2, 1, 1)])
def test_two_racks_share_the_workers(workers: int, here: int, there: int) -> None:
    network = two_racks(workers, LAN, (UP, DOWN))
    a, b = network.sites
    assert a.hosts == ("server", *network.workers[:here])
    assert b.hosts == network.workers[here:] and len(b.hosts) == there
    assert network.links == (Link("rack-b", "rack-a", UP, DOWN),)
    assert bottleneck(network, network.workers[-1], "server") == UP.rate
    assert bottleneck(network, "w1", "server") == LAN.rate


def test_routes_take_the_least_delay_or_the_fewest_links() -> None:
    sites = tuple(Site(name, (f"h-{name}",)) for name in "abcd")
    ends = {"ab": 0.010, "bc": 0.010, "ac": 0.100, "cd": 0.001, "bd": 0.030}
    links = tuple(Link(*pair, Channel(delay=delay), Channel(delay=delay)) for pair, delay in ends.items())
    network = Network("four", sites, links, ("h-a",))
    assert site_paths(network)["a"]["c"] == ["a", "b", "c"]  # 20 ms before 100 ms
    assert site_paths(network)["a"]["d"] == ["a", "b", "c", "d"]  # 21 ms before 40 ms
    direct = dataclasses.replace(network, routes="fewest-links")
    assert site_paths(direct)["a"]["c"] == ["a", "c"]
    assert site_paths(direct)["a"]["d"] == ["a", "b", "d"]  # of two links: 40 ms before 101 ms
