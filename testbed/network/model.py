"""The network as data: sites, hosts, links and what each direction of a link can carry.

Pure: nothing here touches the system, and nothing here knows Mininet. Rates are bit/s, times are
seconds, sizes are bytes, probabilities lie in 0 to 1. Every delay is one-way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SMALLEST_QUEUE = 30_000
"""bytes; twenty full frames, below which a queue starves its own link."""


@dataclass(frozen=True)
class Channel:
    """One direction of a link: what a packet meets between two ports."""

    rate: float | None = None
    """bit/s on the wire (Ethernet frames); None leaves the direction unshaped."""
    delay: float = 0.0
    """seconds, one way."""
    queue: int | None = None
    """bytes waiting for the rate; None takes the link's bandwidth-delay product."""
    loss: float = 0.0
    """probability that a packet is lost."""
    jitter: float = 0.0
    """seconds; the standard deviation of a normal jitter around `delay`."""


@dataclass(frozen=True)
class Link:
    """A WAN link between the routers of two sites."""

    a: str
    b: str
    forward: Channel
    """from `a` to `b`."""
    backward: Channel
    """from `b` to `a`."""

    @property
    def round_trip(self) -> float:
        """Seconds of propagation there and back."""
        return self.forward.delay + self.backward.delay

    def channel(self, source: str) -> Channel:
        """The direction that leaves site `source`, its queue filled in."""
        channel = self.forward if source == self.a else self.backward
        if channel.rate is None or channel.queue is not None:
            return channel
        product = channel.rate * self.round_trip / 8
        return replace(channel, queue=max(SMALLEST_QUEUE, round(product)))


@dataclass(frozen=True)
class Site:
    """A place with a router and hosts on its local network."""

    name: str
    hosts: tuple[str, ...]
    lan: Channel = Channel()
    """Each direction between a host and the site's router."""


@dataclass(frozen=True)
class Placement:
    """Where a role beside `worker` runs."""

    role: str
    hosts: tuple[str, ...]
    """One node of the role on each, in rank order. A host may carry several roles."""


@dataclass(frozen=True)
class Network:
    """Sites joined by links, and which hosts take part in training."""

    name: str
    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    workers: tuple[str, ...]
    """Hosts that train, in rank order."""
    server: str | None = None
    """The host of the server role; None where the network has no such host."""
    roles: tuple[Placement, ...] = ()
    """Where further roles run, as far as the file says so."""
    routes: str = "least-delay"
    """Which of two paths packets take: `least-delay`, or `fewest-links` and of those the one with the least delay."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host, in file order."""
        return tuple(host for site in self.sites for host in site.hosts)

    def hosts_of(self, role: str) -> tuple[str, ...]:
        """Where a role beside `worker` runs: as placed, else beside the server, else on the first worker.

        A server is never put on a worker unasked: without a place for it the tuple is empty.
        """
        for placement in self.roles:
            if placement.role == role:
                return placement.hosts
        if self.server is not None:
            return (self.server,)
        return () if role == "server" else self.workers[:1]

    def site_of(self, host: str) -> Site:
        """The site that holds `host`; KeyError when there is none."""
        for site in self.sites:
            if host in site.hosts:
                return site
        raise KeyError(host)
