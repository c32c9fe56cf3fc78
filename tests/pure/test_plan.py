"""The plan of a network: addresses, names, routes, expectations."""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.network import routes
from testbed.network.model import SMALLEST_QUEUE, Channel, Link, Network, Site
from testbed.network.plan import Plan, plan
from testbed.spec.run import Tcp, from_plain, to_plain


def channel(draw: st.DrawFn) -> Channel:
    return Channel(
        rate=draw(st.sampled_from([None, 1e6, 20e6, 1e9])),
        # few values, so that equally long paths are common
        delay=draw(st.sampled_from([0.0, 0.001, 0.002, 0.003, 0.1])),
    )


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Connected: each site after the first is joined to an earlier one, and some pairs besides."""
    count = draw(st.integers(1, 7))
    sites = tuple(
        Site(f"site {i}", tuple(f"h{i}.{k}" for k in range(draw(st.integers(0, 3)))), channel(draw))
        for i in range(count)
    )
    pairs = {(draw(st.integers(0, i - 1)), i) for i in range(1, count)}
    if count > 1:
        more = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] < p[1])
        pairs |= draw(st.sets(more, max_size=6))
    links = tuple(Link(sites[a].name, sites[b].name, channel(draw), channel(draw)) for a, b in sorted(pairs))
    return Network("drawn", sites, links, workers=())


def walk(planned: Plan, source: str, target: str) -> list[str]:
    """Names of the ports that a packet leaves by, as routers forward it: by its address alone."""
    address = ip_address(next(host.address for host in planned.hosts if host.name == target))
    ends = {end.address: end.node for wire in planned.wires for end in (wire.a, wire.b)}
    start = next(host for host in planned.hosts if host.name == source)
    node, names = start.router, [f"{source}>{start.router}"]
    sites = {router.name: router.site for router in planned.routers}
    while node != target:
        assert len(names) <= len(planned.routers) + 1, f"a loop: {names}"
        near = [w.b.node for w in planned.wires if w.a.node == node and w.b.address == str(address)]
        if near:
            names.append(f"{node}>{target}")
            node = near[0]
            continue
        (gateway,) = [
            route.gateway
            for route in planned.routes
            if route.node == node and address in ip_network(f"{route.prefix}/{route.bits}")
        ]
        names.append(f"{sites[node]}>{sites[ends[gateway]]}")
        node = ends[gateway]
    return names


@settings(deadline=None, max_examples=150)
@given(networks())
def test_forwarding_reaches_every_host_with_the_promised_delay_and_rate(network: Network) -> None:
    planned = plan(network, Tcp())
    ports = {port.name: port.channel for port in planned.ports}
    assert len(ports) == len(planned.ports)
    assert {(e.source, e.target) for e in planned.expectations} == {
        (a, b) for a in network.hosts for b in network.hosts if a != b
    }
    for expected in planned.expectations:
        there, back = (
            walk(planned, *pair) for pair in ((expected.source, expected.target), (expected.target, expected.source))
        )
        passed = [ports.get(name, Channel()) for name in there + back]
        round_trip = routes.round_trip(network, expected.source, expected.target)
        assert sum(c.delay for c in passed) == pytest.approx(round_trip, abs=1e-12)
        assert expected.round_trip == round_trip
        rates = [ports[name].rate for name in there if name in ports and ports[name].rate is not None]
        assert expected.rate == min(rates, default=None)
        assert expected.rate is None or ports[str(expected.bottleneck)].rate == expected.rate


@settings(deadline=None)
@given(networks())
def test_names_and_addresses_are_unique_and_fit(network: Network) -> None:
    planned = plan(network, Tcp())
    ends = [end for wire in planned.wires for end in (wire.a, wire.b)]
    for values in (
        [end.address for end in ends] + [router.address for router in planned.routers],
        [end.index for end in ends],
        [end.mac for end in ends],
        [(end.node, end.interface) for end in ends],
        [host.name for host in planned.hosts] + [router.name for router in planned.routers],
    ):
        assert len(set(values)) == len(values)
    assert all(len(end.interface) <= 15 and end.interface.isascii() for end in ends)
    assert all(" " not in end.interface and "/" not in end.interface for end in ends)
    for wire in planned.wires:
        subnet = ip_network(f"{wire.a.address}/30", strict=False)
        assert [str(a) for a in subnet.hosts()] == [wire.a.address, wire.b.address]


@settings(deadline=None)
@given(networks())
def test_a_plan_survives_json(network: Network) -> None:
    planned = plan(network, Tcp())
    assert from_plain(Plan, json.loads(json.dumps(to_plain(planned)))) == planned


def pair_network(forward: Channel, backward: Channel, lan: Channel | None = None) -> Network:
    sites = (Site("a", ("h1", "h2"), lan or Channel()), Site("b", ("h3",)))
    return Network("pair", sites, (Link("a", "b", forward, backward),), ("h1",))


def test_addresses_follow_the_scheme() -> None:
    planned = plan(pair_network(Channel(), Channel()), Tcp())
    assert [(h.address, h.gateway) for h in planned.hosts] == [
        ("10.0.0.2", "10.0.0.1"),
        ("10.0.0.6", "10.0.0.5"),
        ("10.1.0.2", "10.1.0.1"),
    ]
    assert planned.wires[-1].a.address == "172.16.0.1"
    assert planned.wires[0].b.interface == "h1-eth0"
    assert [(r.node, r.prefix, r.bits, r.gateway) for r in planned.routes] == [
        ("r_a", "10.1.0.0", 16, "172.16.0.2"),
        ("r_b", "10.0.0.0", 16, "172.16.0.1"),
    ]


def test_queues_default_to_the_bandwidth_delay_product() -> None:
    network = pair_network(Channel(100e6, 0.03), Channel(10e6, 0.01), Channel(1e9, 0.001))
    queues = {port.name: port.channel.queue for port in plan(network, Tcp()).ports}
    # The round trip of the link is 40 ms whichever direction is asked.
    assert queues["a>b"] == 100e6 * 0.04 / 8
    assert queues["b>a"] == 10e6 * 0.04 / 8
    assert queues["h1>r_a"] == queues["r_a>h2"] == 1e9 * 0.002 / 8
    slow = plan(pair_network(Channel(1e6, 0.01), Channel(1e6, 0.01, queue=5000)), Tcp())
    assert {p.name: p.channel.queue for p in slow.ports} == {"a>b": SMALLEST_QUEUE, "b>a": 5000}


def test_buffers_hold_four_products_and_never_less_than_linux_gives() -> None:
    def largest(network: Network, tcp: Tcp) -> str:
        return next(s.value for s in plan(network, tcp).sysctls if s.key.endswith("tcp_rmem")).split()[-1]

    fat = pair_network(Channel(1e9, 0.1), Channel(1e9, 0.1))
    assert int(largest(fat, Tcp())) == 100_000_000
    assert int(largest(pair_network(Channel(1e6, 0.1), Channel(1e6, 0.1)), Tcp())) == 6 * 1024 * 1024
    assert int(largest(fat, Tcp(buffer=65536))) == 65536


def test_single_losses_need_single_packets() -> None:
    assert plan(pair_network(Channel(1e6), Channel(1e6)), Tcp()).segments == 10
    lossy = plan(pair_network(Channel(1e6, loss=0.01), Channel(1e6, loss=0.02)), Tcp())
    assert lossy.segments == 1
    (expected,) = [e for e in lossy.expectations if (e.source, e.target) == ("h1", "h3")]
    assert expected.loss == pytest.approx(1 - 0.99 * 0.98)


def test_awkward_names_become_short_interfaces() -> None:
    name = "a-rather-long-host-name"
    sites = (Site("São Paulo/1", (name,)), Site("São Paulo 1", ("h",)))
    planned = plan(Network("n", sites, (Link(sites[0].name, sites[1].name, Channel(), Channel()),), ()), Tcp())
    assert planned.wires[0].b.interface == "h0-eth0"
    assert len({router.name for router in planned.routers}) == 2
    assert all(router.name.isidentifier() and router.name.isascii() for router in planned.routers)


@pytest.mark.parametrize("links", [0, 2])
def test_networks_that_cannot_be_routed_are_refused(links: int) -> None:
    link = Link("a", "b", Channel(), Channel())
    network = Network("odd", (Site("a", ("h1",)), Site("b", ("h2",))), (link,) * links, ())
    with pytest.raises(ValueError, match="odd: "):
        plan(network, Tcp())
