"""A network worked out down to the last address: all that is needed to build it, with nothing to decide.

Pure. The plan holds dataclasses, tuples and scalars only, so it travels as JSON to where the network
is built. Importing this module is cheap, because the guest imports it too.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.network.model import Channel, Network
from testbed.spec.run import Tcp

FIRST_INDEX = 100_000
"""Interface numbers start here: both ends of a wire need a number that is free in both namespaces."""
PREFIX = 30
"""bits; every wire is a network of two addresses."""


@dataclass(frozen=True)
class Router:
    """The router of a site."""

    name: str
    site: str
    address: str
    """On its loopback interface: where it answers whichever way packets come."""


@dataclass(frozen=True)
class Host:
    """A host behind its site's router."""

    name: str
    site: str
    router: str
    address: str
    gateway: str
    """The router's address on the wire between them: the default route."""


@dataclass(frozen=True)
class End:
    """One interface of a wire."""

    node: str
    interface: str
    index: int
    mac: str
    address: str


@dataclass(frozen=True)
class Wire:
    """A virtual Ethernet pair. Each end is a permanent neighbour of the other: no ARP round trips."""

    a: End
    b: End


@dataclass(frozen=True)
class Route:
    """A static route on a router, for all hosts of a site."""

    node: str
    prefix: str
    bits: int
    gateway: str


@dataclass(frozen=True)
class Port:
    """An interface that shapes what leaves it."""

    name: str
    """`source>target`: the sites on a WAN link; the host and its router on a local network."""
    node: str
    interface: str
    index: int
    wan: bool
    channel: Channel
    """The queue is filled in wherever there is a rate."""


@dataclass(frozen=True)
class Sysctl:
    """A kernel setting in the namespace of every host, of every router, or of both."""

    key: str
    """Below /proc/sys, with slashes."""
    value: str
    hosts: bool
    routers: bool


@dataclass(frozen=True)
class Expectation:
    """What one host should measure towards another."""

    source: str
    target: str
    round_trip: float
    """seconds of propagation."""
    jitter: float
    """seconds; standard deviation of the round trip."""
    loss: float
    """probability that a packet or its answer is lost by chance."""
    rate: float | None
    """bit/s on the wire of the slowest direction; None when nothing on the way is shaped."""
    bottleneck: str | None
    """Name of the port that has this rate."""


@dataclass(frozen=True)
class Plan:
    """A network ready to be built."""

    routers: tuple[Router, ...]
    hosts: tuple[Host, ...]
    wires: tuple[Wire, ...]
    routes: tuple[Route, ...]
    ports: tuple[Port, ...]
    sysctls: tuple[Sysctl, ...]
    segments: int
    """The most packets that a host hands on as one: 1 where packets are lost singly, else 10, which
    keeps drops fine-grained at small cost."""
    expectations: tuple[Expectation, ...]


def plan(network: Network, tcp: Tcp) -> Plan:
    """Every detail of `network`; the same input gives the same plan.

    Raises ValueError when the network is not connected, when more than one link joins two sites, and
    when there are more sites, hosts or links than addresses.
    """
    # Imported here because it needs networkx, which nothing that reads a plan should have to load.
    from testbed.network.layout import lay_out

    return lay_out(network, tcp)
