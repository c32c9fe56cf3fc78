"""Small networks that the guest tests build."""

from __future__ import annotations

from testbed.network.model import Channel, Link, Network, Site


def both(a: str, b: str, channel: Channel) -> Link:
    return Link(a, b, channel, channel)


def star() -> Network:
    """A server's site and eight workers' sites behind unequal links, the first one slow and lopsided."""
    sites = tuple(Site(f"site{i}", (f"h{i}",)) for i in range(9))
    links = [Link("site0", "site1", Channel(2e6, 0.001), Channel(8e6, 0.004))]
    links += [both("site0", f"site{i}", Channel(10e6 * i, 0.004 * i)) for i in range(2, 9)]
    return Network("star", sites, tuple(links), tuple(f"h{i}" for i in range(1, 9)), "h0")


def line() -> Network:
    """Three routers in a row; the middle has two hosts on a shaped local network."""
    sites = (
        Site("west", ("west-1",)),
        Site("middle", ("m1", "m2"), Channel(200e6, 0.0005)),
        Site("east", ("e1",)),
    )
    links = (
        both("west", "middle", Channel(100e6, 0.010)),
        both("middle", "east", Channel(40e6, 0.025, queue=60_000)),
    )
    return Network("line", sites, links, ("west-1", "m1", "m2", "e1"))


def rough() -> Network:
    """One link that loses packets one way and one that jitters."""
    sites = (Site("a", ("h1",)), Site("b", ("h2",)), Site("c", ("h3",)))
    links = (
        Link("a", "b", Channel(100e6, 0.020, loss=0.1), Channel(100e6, 0.020)),
        Link("b", "c", Channel(None, 0.020, jitter=0.002), Channel(None, 0.020)),
    )
    return Network("rough", sites, links, ("h1", "h2", "h3"))
