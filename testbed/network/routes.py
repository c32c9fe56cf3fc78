"""Which way packets go: shortest paths by delay or by links, and what a path promises."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import networkx as nx

from testbed.network.model import Channel, Network


def _graph(network: Network) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(site.name for site in network.sites)
    # A hop costs a nanosecond at least, so that equal delays take the fewest hops; or more than all delays together.
    hop = 1e-9
    if network.routes == "fewest-links":
        hop = 1.0 + math.fsum(link.forward.delay + link.backward.delay for link in network.links)
    for link in network.links:
        graph.add_edge(link.a, link.b, cost=link.forward.delay + hop)
        graph.add_edge(link.b, link.a, cost=link.backward.delay + hop)
    return graph


@cache
def site_paths(network: Network) -> dict[str, dict[str, list[str]]]:
    """Sites from source to target on the path that `network.routes` asks for, for every ordered pair.

    Paths to one target form a tree, as hop-by-hop forwarding makes them: the rest of a path is the
    next site's own path. Neighbours are visited in file order, so equal paths resolve the same way
    every time.
    """
    paths: dict[str, dict[str, list[str]]] = {site.name: {} for site in network.sites}
    towards = _graph(network).reverse(copy=False)
    for target, tree in nx.all_pairs_dijkstra_path(towards, weight="cost"):
        for source, path in tree.items():
            paths[source][target] = path[::-1]
    return paths


def channels(network: Network, source: str, target: str) -> list[Channel]:
    """What a packet from host `source` to host `target` passes, in order; LAN hops included."""
    here, there = network.site_of(source), network.site_of(target)
    links = {frozenset((link.a, link.b)): link for link in network.links}
    path = site_paths(network)[here.name][there.name]
    wan = [links[frozenset(hop)].channel(hop[0]) for hop in pairwise(path)]
    return [here.lan, *wan, there.lan]


def round_trip(network: Network, a: str, b: str) -> float:
    """Seconds of propagation from host `a` to host `b` and back."""
    there, back = channels(network, a, b), channels(network, b, a)
    return sum(channel.delay for channel in there + back)


def bottleneck(network: Network, source: str, target: str) -> float | None:
    """The slowest rate from `source` to `target` in bit/s; None when nothing on the way is shaped."""
    rates = [c.rate for c in channels(network, source, target) if c.rate is not None]
    return min(rates, default=None)
