"""The queues of a port as the kernel's messages write them, and as its answers read.

    root 1: netem         delay, jitter, loss; holds what is on its way, so its limit is out of reach
      1:1 -> 2: htb       the rate, in class 2:1
        2:1 -> 3: bfifo   the queue, counted in bytes

With the queue last, drops are exact to the packet: htb above netem would count bundles of packets.
The same three appear whatever a port needs, so that every setting can change in place.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from testbed.engines.mininet.netlink import attribute, attributes, text, traffic
from testbed.network.model import Channel

ROOT = 0xFFFFFFFF
NETEM, HTB, CLASS, FIFO = 0x10000, 0x20000, 0x20001, 0x30000
"""Handles; a class is its queue's handle plus its number."""
_NETEM_BAND = 0x10001

_KIND, _OPTIONS, _STATS2 = 1, 2, 7
_STATS_BASIC, _STATS_QUEUE, _STATS_PACKETS64 = 1, 3, 8
_NETEM_DISTRIBUTION, _NETEM_LATENCY64, _NETEM_JITTER64 = 2, 10, 11
_HTB_PARAMETERS, _HTB_INIT, _HTB_RATE64, _HTB_CEIL64 = 1, 2, 6, 7
_ETHERNET = 1
_TICK = 64
"""nanoseconds of the kernel's unit of queueing time."""
_IN_FLIGHT = 1_000_000
"""packets that may be on their way at once."""
_QUANTUM = 15_140
"""bytes; one bundle of ten packets. With a single class it only has to be given, or the kernel complains."""
_FRAME = 1514
_LATENESS = 10e-6
"""seconds that the kernel's timer may be late without costing rate."""
_CERTAIN = 0xFFFFFFFF
_TABLE, _TABLE_SCALE = 4096, 8192
"""Entries of netem's table of a distribution, and what one standard deviation is in it."""


@dataclass(frozen=True)
class Counters:
    """What one queue has seen since it was made."""

    bytes: int
    packets: int
    drops: int
    backlog: int


def netem(index: int, channel: Channel) -> bytes:
    """The message about a port's delay, jitter and loss."""
    settings = netem_settings(channel)
    fixed = struct.pack("=6I", 0, settings["limit"], settings["loss"], 0, 0, 0)
    options = attribute(_NETEM_LATENCY64, struct.pack("=q", settings["delay"]))
    options += attribute(_NETEM_JITTER64, struct.pack("=q", settings["jitter"]))
    if settings["jitter"]:
        options += attribute(_NETEM_DISTRIBUTION, _normal_table())
    return traffic(index, NETEM, ROOT) + text(_KIND, "netem") + attribute(_OPTIONS, fixed + options)


def htb(index: int) -> bytes:
    """The message about a port's rate limiter, which sends everything to its one class."""
    init = attribute(_HTB_INIT, struct.pack("=5I", 3, 10, CLASS & 0xFFFF, 0, 0))
    return traffic(index, HTB, _NETEM_BAND) + text(_KIND, "htb") + attribute(_OPTIONS, init)


def htb_class(index: int, channel: Channel) -> bytes:
    """The message about a port's rate."""
    settings = htb_settings(channel)
    rate = struct.pack("=BBHhHI", 0, _ETHERNET, 0, 0, 0, min(settings["rate"], 0xFFFFFFFF))
    burst = settings["burst"]
    fixed = rate + rate + struct.pack("=5I", burst, burst, settings["quantum"], 0, 0)
    options = attribute(_HTB_PARAMETERS, fixed)
    if settings["rate"] > 0xFFFFFFFF:
        options += attribute(_HTB_RATE64, struct.pack("=Q", settings["rate"]))
        options += attribute(_HTB_CEIL64, struct.pack("=Q", settings["rate"]))
    return traffic(index, CLASS, HTB) + text(_KIND, "htb") + attribute(_OPTIONS, options)


def fifo(index: int, channel: Channel) -> bytes:
    """The message about a port's queue."""
    options = struct.pack("=I", fifo_settings(channel)["limit"])
    return traffic(index, FIFO, CLASS) + text(_KIND, "bfifo") + attribute(_OPTIONS, options)


def netem_settings(channel: Channel) -> dict[str, int]:
    """Delay and jitter in nanoseconds, loss in parts of 2^32 - 1, limit in packets."""
    return {
        "delay": round(channel.delay * 1e9),
        "jitter": round(channel.jitter * 1e9),
        "loss": round(channel.loss * _CERTAIN),
        "limit": _IN_FLIGHT,
    }


def htb_settings(channel: Channel) -> dict[str, int]:
    """Rate in byte/s, burst in ticks, quantum in bytes.

    The burst is what an idle link may send faster than its rate, so it is kept to one packet and to what
    a late timer would else cost.
    """
    assert channel.rate is not None
    rate = max(1, round(channel.rate / 8))
    burst = _FRAME / rate + _LATENESS
    return {"rate": rate, "burst": round(burst * 1e9 / _TICK), "quantum": _QUANTUM}


def fifo_settings(channel: Channel) -> dict[str, int]:
    """Limit in bytes."""
    assert channel.queue is not None
    return {"limit": channel.queue}


def read(body: bytes) -> tuple[int, int, str, dict[str, int], Counters]:
    """A queue or class in an answer: interface, handle, kind, settings as the functions above name them."""
    _, index, handle, _, _ = struct.unpack_from("=BxxxiIII", body)
    found = attributes(body[20:])
    kind = found[_KIND].rstrip(b"\0").decode()
    options = found.get(_OPTIONS, b"")
    reader = {"netem": _read_netem, "htb": _read_htb, "bfifo": _read_fifo}.get(kind)
    settings = reader(options) if reader and options else {}
    return index, handle, kind, settings, _read_counters(found.get(_STATS2, b""))


def _read_netem(options: bytes) -> dict[str, int]:
    _, limit, loss = struct.unpack_from("=3I", options)
    extra = attributes(options[24:])
    (delay,) = struct.unpack("=q", extra[_NETEM_LATENCY64])
    (jitter,) = struct.unpack("=q", extra[_NETEM_JITTER64])
    return {"delay": delay, "jitter": jitter, "loss": loss, "limit": limit}


def _read_htb(options: bytes) -> dict[str, int]:
    found = attributes(options)
    if _HTB_PARAMETERS not in found:
        return {}
    parameters = found[_HTB_PARAMETERS]
    (rate,) = struct.unpack_from("=I", parameters, 8)
    burst, _, quantum = struct.unpack_from("=3I", parameters, 24)
    if _HTB_RATE64 in found:
        (rate,) = struct.unpack("=Q", found[_HTB_RATE64])
    return {"rate": rate, "burst": burst, "quantum": quantum}


def _read_fifo(options: bytes) -> dict[str, int]:
    return {"limit": struct.unpack_from("=I", options)[0]}


def _read_counters(stats: bytes) -> Counters:
    found = attributes(stats)
    size, packets = struct.unpack_from("=QI", found.get(_STATS_BASIC, bytes(16)))
    if _STATS_PACKETS64 in found:
        (packets,) = struct.unpack("=Q", found[_STATS_PACKETS64])
    _, backlog, drops, _, _ = struct.unpack_from("=5I", found.get(_STATS_QUEUE, bytes(20)))
    return Counters(size, packets, drops, backlog)


@cache
def _normal_table() -> bytes:
    """A normal distribution as netem draws from it: equally likely values. Without, jitter is uniform."""
    from statistics import NormalDist  # slow to import, and most networks have no jitter

    normal = NormalDist()
    values = [round(_TABLE_SCALE * normal.inv_cdf((i + 0.5) / _TABLE)) for i in range(_TABLE)]
    return struct.pack(f"={_TABLE}h", *values)
