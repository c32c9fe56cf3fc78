"""ICMP echoes between hosts, timed by the kernel."""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from testbed.engines.mininet.namespaces import inside
from testbed.network.plan import Expectation

_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_SOL_RAW, _ICMP_FILTER = 255, 1
_SO_TIMESTAMPNS = 35
_HEADER = struct.Struct("!BBHHHQ")
"""Type, code, checksum, identifier, sequence, then the probe's number as payload."""
_GRACE = 0.5
"""seconds beyond the expected round trip after which an echo counts as lost."""
PACKET = 14 + 20 + _HEADER.size
"""bytes of an echo on the wire."""


@dataclass
class Probe:
    """One host's echoes to another, and what came back."""

    expectation: Expectation
    number: int
    samples: list[float] = field(default_factory=list)
    """seconds."""


class Echoes:
    """One raw socket per host. A context manager: the sockets are closed at the end."""

    def __init__(self, net: Any, hosts: tuple[str, ...]) -> None:
        self._sockets: dict[str, socket.socket] = {}
        self._addresses = {name: net.get(name).IP() for name in hosts}
        self._poll = select.poll()
        self._by_descriptor: dict[int, socket.socket] = {}
        for name in hosts:
            with inside(net.get(name).namespace):
                raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            raw.setblocking(False)
            raw.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", ~(1 << _ECHO_REPLY) & 0xFFFFFFFF))
            raw.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self._sockets[name] = self._by_descriptor[raw.fileno()] = raw
            self._poll.register(raw, select.POLLIN)

    def __enter__(self) -> Echoes:
        return self

    def __exit__(self, *_: object) -> None:
        for raw in self._sockets.values():
            raw.close()

    def exchange(self, probes: list[Probe]) -> list[Probe]:
        """Send one echo for each probe at once; each answer adds a sample. Returns who had no answer."""
        sent: dict[int, int] = {}
        waiting = {probe.number: probe for probe in probes}
        longest = 0.0
        for probe in probes:
            expected = probe.expectation
            packet = _request(probe.number)
            sent[probe.number] = time.clock_gettime_ns(time.CLOCK_REALTIME)
            self._sockets[expected.source].sendto(packet, (self._addresses[expected.target], 0))
            longest = max(longest, expected.round_trip + 8 * expected.jitter)
        deadline = time.monotonic() + longest + _GRACE
        while waiting and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in self._poll.poll(left * 1000):
                number, arrived = _answer(self._by_descriptor[descriptor])
                if number in waiting:
                    waiting.pop(number).samples.append((arrived - sent[number]) / 1e9)
        return list(waiting.values())


def _request(number: int) -> bytes:
    """An echo request. The checksum is the complement of the sum of its 16-bit words (RFC 1071)."""
    packet = _HEADER.pack(_ECHO_REQUEST, 0, 0, 1, 1, number)
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return _HEADER.pack(_ECHO_REQUEST, 0, ~total & 0xFFFF, 1, 1, number)


def _answer(raw: socket.socket) -> tuple[int, int]:
    """A reply's probe number, and when the kernel received it in nanoseconds of the real-time clock."""
    packet, ancillary, _, _ = raw.recvmsg(256, 64)
    begin = (packet[0] & 0xF) * 4
    if len(packet) < begin + _HEADER.size:
        return -1, 0
    number = _HEADER.unpack_from(packet, begin)[-1]
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("=qq", data[:16])
            return number, seconds * 1_000_000_000 + nanoseconds
    raise OSError("the kernel gave an echo without the time of its arrival")
