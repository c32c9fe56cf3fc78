"""Networks that need no drawing. Pure functions of a few numbers.

`up` leads towards the server, `down` away from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from testbed.network.model import Channel, Link, Network, Site

UpDown: TypeAlias = tuple[Channel, Channel]
"""A link's two directions: up, down."""


UNSHAPED = Channel()


def star(links: Sequence[UpDown], lan: Channel = UNSHAPED, name: str = "star") -> Network:
    """The server's site `hub` in the middle and one site per worker around it.

    Worker `w<i>` lives on site `site<i>`, counted from 1, and `links[i - 1]` joins it to the hub.
    """
    workers = tuple(f"w{number}" for number in range(1, len(links) + 1))
    sites = tuple(Site(f"site{number}", (host,), lan) for number, host in enumerate(workers, 1))
    spokes = tuple(Link(site.name, "hub", up, down) for site, (up, down) in zip(sites, links, strict=True))
    return Network(name, (Site("hub", ("server",), lan), *sites), spokes, workers, "server")


def two_racks(workers: int, lan: Channel, link: UpDown, name: str = "two-racks") -> Network:
    """The server and the first half of the workers in `rack-a`, the other half in `rack-b`, one link between.

    An odd worker goes to `rack-a`.
    """
    names = tuple(f"w{number}" for number in range(1, workers + 1))
    half = (workers + 1) // 2
    racks = (Site("rack-a", ("server", *names[:half]), lan), Site("rack-b", names[half:], lan))
    up, down = link
    return Network(name, racks, (Link("rack-b", "rack-a", up, down),), names, "server")
