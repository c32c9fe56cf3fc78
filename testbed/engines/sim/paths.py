"""Which ports a message crosses, and how long its way is: the network model as flows see it."""

from __future__ import annotations

import math
from itertools import pairwise

from testbed.network.model import SMALLEST_QUEUE, Channel, Network
from testbed.network.routes import site_paths


class Paths:
    """Ports and delays of a network, by number. A host's own link to its router is a port each way."""

    def __init__(self, network: Network) -> None:
        self.names: list[str] = []
        """`source>target`, as the virtual engine's ports are called."""
        self.capacities: list[float] = []
        """bytes/s on the wire; infinite where nothing is shaped."""
        self.queues: list[float] = []
        """bytes on the wire that fit into the queue in front of each port."""
        self.counted: list[int] = []
        """The ports whose bytes are recorded: WAN links, and local ones that are shaped."""
        self._delays: list[float] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._sites = {host: site.name for site in network.sites for host in site.hosts}
        # Once: the paths of a network are kept by its value, and looking one up means to hash all of it.
        self._routes = site_paths(network)
        self._found: dict[tuple[str, str], tuple[tuple[int, ...], float]] = {}
        for link in network.links:
            self._add(link.a, link.b, f"{link.a}>{link.b}", link.channel(link.a), True)
            self._add(link.b, link.a, f"{link.b}>{link.a}", link.channel(link.b), True)
        for site in network.sites:
            for host in site.hosts:
                self._add(host, "", f"{host}>{site.name}", site.lan, site.lan.rate is not None)
                self._add("", host, f"{site.name}>{host}", site.lan, site.lan.rate is not None)

    def _add(self, source: str, target: str, name: str, channel: Channel, counted: bool) -> None:
        self._numbers[source, target] = len(self.names)
        if counted:
            self.counted.append(len(self.names))
        self.names.append(name)
        self.capacities.append(math.inf if channel.rate is None else channel.rate / 8)
        product = 0.0 if channel.rate is None else channel.rate * 2 * channel.delay / 8
        self.queues.append(max(SMALLEST_QUEUE, product) if channel.queue is None else channel.queue)
        self._delays.append(channel.delay)

    def path(self, source: str, target: str) -> tuple[tuple[int, ...], float]:
        """The ports from host to host and the one-way delay in seconds; no port and no delay within a host."""
        found = self._found.get((source, target))
        if found is None:
            hops: list[tuple[str, str]] = []
            if source != target:
                sites = self._routes[self._sites[source]][self._sites[target]]
                hops = [(source, ""), *pairwise(sites), ("", target)]
            ports = tuple(self._numbers[hop] for hop in hops)
            found = self._found[source, target] = ports, math.fsum(self._delays[port] for port in ports)
        return found
