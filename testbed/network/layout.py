"""Working out a plan: names, addresses, routes, and what to expect.

Site S is 10.S.0.0/16; its host h has 10.S.0.0/30 moved on by 4h, the router at .1 and the host at .2 of
it; the router itself answers at 10.S.255.254. WAN link L is the L-th /30 of 172.16.0.0/12.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from ipaddress import IPv4Address
from itertools import pairwise

from testbed.network import routes
from testbed.network.model import SMALLEST_QUEUE, Channel, Network, Site
from testbed.network.plan import (
    FIRST_INDEX,
    End,
    Expectation,
    Host,
    Plan,
    Port,
    Route,
    Router,
    Sysctl,
    Wire,
)
from testbed.spec.run import Tcp

_SITES = IPv4Address("10.0.0.0")
_WAN = IPv4Address("172.16.0.0")
_MOST_SITES, _MOST_HOSTS, _MOST_LINKS = 256, 16_383, 1 << 18
_INTERFACE_NAME = 15
_SMALLEST_BUFFER = 6 * 1024 * 1024
"""bytes; what Linux takes by default."""
_SEGMENTS = 10


def lay_out(network: Network, tcp: Tcp) -> Plan:
    """See `testbed.network.plan.plan`."""
    _check(network)
    layout = _Layout(network)
    expectations = _expectations(network, layout)
    segments = 1 if any(port.channel.loss > 0 for port in layout.ports) else _SEGMENTS
    return Plan(
        routers=tuple(layout.routers.values()),
        hosts=tuple(layout.hosts.values()),
        wires=tuple(layout.wires),
        routes=_routes(network, layout),
        ports=tuple(layout.ports),
        sysctls=_sysctls(tcp, expectations),
        segments=segments,
        expectations=expectations,
    )


class _Layout:
    """Names, addresses and wires, given out in file order."""

    def __init__(self, network: Network) -> None:
        self.routers: dict[str, Router] = {}
        """By site."""
        self.hosts: dict[str, Host] = {}
        self.wires: list[Wire] = []
        self.ports: list[Port] = []
        self.gateways: dict[tuple[str, str], str] = {}
        """The address at the other end of the link, by (site, neighbouring site)."""
        self._ends = 0
        self._used: dict[str, int] = {}
        self._short: dict[str, str] = {}
        names = set(network.hosts)
        for number, site in enumerate(network.sites):
            name = _free_name("r_" + re.sub(r"\W", "_", site.name, flags=re.ASCII), names)
            names.add(name)
            self._short[name] = f"r{number}"
            self.routers[site.name] = Router(name, site.name, str(_site_base(number) + 0xFFFE))
        for number, host in enumerate(network.hosts):
            self._short[host] = f"h{number}"
        for number, site in enumerate(network.sites):
            self._add_hosts(number, site)
        self._add_links(network)

    def _end(self, node: str, address: IPv4Address) -> End:
        port = self._used.get(node, 0)
        self._used[node] = port + 1
        index = FIRST_INDEX + self._ends
        self._ends += 1
        name = f"{node}-eth{port}"
        if len(name) > _INTERFACE_NAME or not re.fullmatch(r"[\w.-]+", name, flags=re.ASCII):
            name = f"{self._short[node]}-eth{port}"
        mac = ":".join(f"{byte:02x}" for byte in b"\x02\x00" + index.to_bytes(4, "big"))
        return End(node, name, index, mac, str(address))

    def _wire(self, a: str, b: str, base: IPv4Address) -> Wire:
        wire = Wire(self._end(a, base + 1), self._end(b, base + 2))
        self.wires.append(wire)
        return wire

    def _port(self, name: str, end: End, wan: bool, channel: Channel) -> None:
        self.ports.append(Port(name, end.node, end.interface, end.index, wan, channel))

    def _add_hosts(self, number: int, site: Site) -> None:
        router, lan = self.routers[site.name].name, _lan(site)
        for position, name in enumerate(site.hosts):
            wire = self._wire(router, name, _site_base(number) + 4 * position)
            self.hosts[name] = Host(name, site.name, router, wire.b.address, wire.a.address)
            if lan.rate is not None or lan.delay or lan.loss or lan.jitter:
                self._port(f"{router}>{name}", wire.a, False, lan)
                self._port(f"{name}>{router}", wire.b, False, lan)

    def _add_links(self, network: Network) -> None:
        for number, link in enumerate(network.links):
            a, b = self.routers[link.a].name, self.routers[link.b].name
            wire = self._wire(a, b, _WAN + 4 * number)
            self.gateways[link.a, link.b] = wire.b.address
            self.gateways[link.b, link.a] = wire.a.address
            # Without a rate or a delay the port is still there, so that its bytes are counted.
            self._port(f"{link.a}>{link.b}", wire.a, True, link.channel(link.a))
            self._port(f"{link.b}>{link.a}", wire.b, True, link.channel(link.b))


def _check(network: Network) -> None:
    for what, number, most in (
        ("sites", len(network.sites), _MOST_SITES),
        ("links", len(network.links), _MOST_LINKS),
        ("hosts at one site", max((len(site.hosts) for site in network.sites), default=0), _MOST_HOSTS),
    ):
        if number > most:
            raise ValueError(f"{network.name}: {number} {what}, and addresses for {most}")
    joined = [frozenset((link.a, link.b)) for link in network.links]
    for pair in joined:
        if joined.count(pair) > 1:
            raise ValueError(f"{network.name}: more than one link joins {' and '.join(sorted(pair))}")
    paths = routes.site_paths(network)
    for source in network.sites:
        for target in network.sites:
            if target.name not in paths[source.name]:
                raise ValueError(f"{network.name}: no way from site {source.name} to site {target.name}")


def _site_base(number: int) -> IPv4Address:
    return _SITES + (number << 16)


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _lan(site: Site) -> Channel:
    """The site's local channel, its queue filled in by the rule of a link with both directions alike."""
    lan = site.lan
    if lan.rate is None or lan.queue is not None:
        return lan
    return replace(lan, queue=max(SMALLEST_QUEUE, round(lan.rate * 2 * lan.delay / 8)))


def _routes(network: Network, layout: _Layout) -> tuple[Route, ...]:
    paths = routes.site_paths(network)
    return tuple(
        Route(
            layout.routers[here.name].name,
            str(_site_base(number)),
            16,
            layout.gateways[here.name, paths[here.name][there.name][1]],
        )
        for here in network.sites
        for number, there in enumerate(network.sites)
        if there.name != here.name
    )


def _expectations(network: Network, layout: _Layout) -> tuple[Expectation, ...]:
    """For every ordered pair of hosts. Hosts of a site are alike: a pair of sites is worked out once."""
    found: list[Expectation] = []
    inhabited = [site for site in network.sites if site.hosts]
    for here in inhabited:
        for there in inhabited:
            found += _between(network, layout, here, there)
    return tuple(found)


def _between(network: Network, layout: _Layout, here: Site, there: Site) -> list[Expectation]:
    a, b = here.hosts[0], there.hosts[0]
    forward = routes.channels(network, a, b)
    both = forward + routes.channels(network, b, a)
    jitter = math.hypot(*(channel.jitter for channel in both))
    loss = 1 - math.prod(1 - channel.loss for channel in both)
    round_trip, rate = routes.round_trip(network, a, b), routes.bottleneck(network, a, b)
    slowest = None if rate is None else [channel.rate for channel in forward].index(rate)
    wan = [f"{x}>{y}" for x, y in pairwise(routes.site_paths(network)[here.name][there.name])]
    found = []
    for source in here.hosts:
        for target in there.hosts:
            if source == target:
                continue
            first = f"{source}>{layout.routers[here.name].name}"
            last = f"{layout.routers[there.name].name}>{target}"
            port = None if slowest is None else [first, *wan, last][slowest]
            found.append(Expectation(source, target, round_trip, jitter, loss, rate, port))
    return found


def _sysctls(tcp: Tcp, expectations: tuple[Expectation, ...]) -> tuple[Sysctl, ...]:
    products = [e.rate * e.round_trip / 8 for e in expectations if e.rate is not None]
    # A window is half of the buffer, and a full queue holds another product.
    buffer = tcp.buffer or max(_SMALLEST_BUFFER, math.ceil(4 * max(products, default=0)))
    return (
        # Delays may differ by direction, so answers may come another way than requests went.
        Sysctl("net/ipv4/conf/all/rp_filter", "0", hosts=False, routers=True),
        Sysctl("net/ipv4/conf/default/rp_filter", "0", hosts=False, routers=True),
        Sysctl("net/ipv4/ip_forward", "1", hosts=False, routers=True),
        Sysctl("net/ipv4/tcp_rmem", f"4096 {min(131_072, buffer)} {buffer}", hosts=True, routers=False),
        # A whole message fits from the start, so that handing it over takes one call and no time.
        Sysctl("net/ipv4/tcp_wmem", f"4096 {buffer} {buffer}", hosts=True, routers=False),
        Sysctl("net/ipv4/tcp_congestion_control", tcp.congestion, hosts=True, routers=False),
        Sysctl(
            "net/ipv4/tcp_slow_start_after_idle",
            str(int(tcp.slow_start_after_idle)),
            hosts=True,
            routers=False,
        ),
        # Else a connection would start from what an earlier one to the same host has learnt.
        Sysctl("net/ipv4/tcp_no_metrics_save", "1", hosts=True, routers=False),
    )
