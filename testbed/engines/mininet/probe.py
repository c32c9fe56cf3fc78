"""Measuring a built network before anything trusts it: round trips, and what bulk transfers achieve.

Everything here waits with a deadline. Results are plain dataclasses, kept beside a run's results.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from testbed.engines.mininet.echo import PACKET, Echoes, Probe
from testbed.engines.mininet.namespaces import inside
from testbed.network.plan import Expectation, Plan

SEGMENT, FRAME = 1448, 1514
"""bytes of payload in a full TCP segment with timestamps, and of its Ethernet frame."""
_AT_ONCE = FRAME // (2 * PACKET)
"""echoes under way together; with their answers they are shorter than one frame, so none has to wait."""
_JITTER_SAMPLES = 30
_PORT = 50_001
_CHUNK = 256 * 1024
_WARM_UP = 3
"""windows sent before the measurement; slow start is past after two."""
_MEASURED = 3_000_000
"""bytes; many, because the measurement begins and ends with a whole bundle of packets."""
_TAIL = 20 * SEGMENT
"""bytes sent beyond what is measured: the very last ones may wait for a round trip."""
_PACE = 1.1
"""A sender may be this much faster than the link, which keeps the link full and its queue short."""
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_MAX_PACING_RATE, _TCP_WINDOW_CLAMP = 32, 33, 47, 10


@dataclass(frozen=True)
class RoundTrip:
    """Echoes from one host to another, in seconds."""

    source: str
    target: str
    expected: float
    measured: float | None
    """Mean; None when none was answered."""
    uncertainty: float
    """Standard error of the mean that the channels' own jitter explains."""
    samples: int


@dataclass(frozen=True)
class Goodput:
    """Payload of one bulk transfer in its steady state, in bit/s.

    The transfer keeps the link full without ever filling its queue, so it shows what the link carries and
    not what a congestion control makes of it.
    """

    source: str
    target: str
    bottleneck: str | None
    expected: float | None
    """None where nothing on the way is shaped, and where loss or jitter slow TCP down."""
    measured: float
    bytes: int
    """Of the whole transfer."""


def round_trips(net: Any, plan: Plan, samples: int = _JITTER_SAMPLES) -> tuple[RoundTrip, ...]:
    """Round trip of every ordered pair of hosts: one echo, or the mean of `samples` where there is jitter."""
    probes = [Probe(expectation, number) for number, expectation in enumerate(_rounds(plan))]
    lossy = any(port.channel.loss > 0 for port in plan.ports)
    rates = [port.channel.rate for port in plan.ports if port.channel.rate is not None]
    pause = FRAME * 8 / min(rates) if rates else 0.0
    with Echoes(net, tuple(host.name for host in plan.hosts)) as echoes:
        for number in range(samples):
            wanted = [probe for probe in probes if probe.expectation.jitter > 0 or number == 0]
            for _ in range(20 if lossy else 2):
                wanted = _sweep(echoes, wanted, pause)
    return tuple(_round_trip(probe) for probe in probes)


def _rounds(plan: Plan) -> list[Expectation]:
    """Expectations in an order in which echoes that are near each other have different ends."""
    rank = {host.name: number for number, host in enumerate(plan.hosts)}
    return sorted(plan.expectations, key=lambda e: ((rank[e.target] - rank[e.source]) % len(rank), rank[e.source]))


def _sweep(echoes: Echoes, probes: list[Probe], pause: float) -> list[Probe]:
    lost = []
    for first in range(0, len(probes), _AT_ONCE):
        lost += echoes.exchange(probes[first : first + _AT_ONCE])
        # The next echoes find the links as idle as these did.
        time.sleep(pause)
    return lost


def _round_trip(probe: Probe) -> RoundTrip:
    expected, samples = probe.expectation, probe.samples
    count = len(samples)
    mean = sum(samples) / count if count else None
    error = expected.jitter / math.sqrt(max(1, count))
    return RoundTrip(expected.source, expected.target, expected.round_trip, mean, error, count)


def goodput(net: Any, plan: Plan, source: str, target: str, size: int | None = None) -> Goodput:
    """One TCP transfer of `size` bytes, of which the second half is measured.

    Without a size it is three windows to warm the connection up, and 3 MB that are measured. Raises
    TimeoutError when it takes five times as long as it should, KeyError when there is no such pair.
    """
    expected = {(e.source, e.target): e for e in plan.expectations}[source, target]
    rate = expected.rate or 1e9
    product = rate * expected.round_trip / 8
    queue = {port.name: port.channel.queue for port in plan.ports}.get(expected.bottleneck or "")
    window = round((product + min((queue or _CHUNK) / 2, product / 10 + _CHUNK)) * SEGMENT / FRAME)
    mark = _WARM_UP * window if size is None else size // 2
    size = mark + _MEASURED if size is None else size
    patience = 30 + 20 * expected.round_trip + 5 * size * 8 / rate
    sender, receiver = _connection(net, source, target, patience)
    with sender, receiver:
        _hold_open(sender, receiver, rate, window)
        measured = _transfer(sender, receiver, mark, size, time.monotonic() + patience)
    ideal = None if expected.rate is None else expected.rate * SEGMENT / FRAME
    if expected.loss or expected.jitter:
        ideal = None
    return Goodput(source, target, expected.bottleneck, ideal, measured, size)


def witnesses(plan: Plan, most: int | None = None) -> tuple[Expectation, ...]:
    """For each port that limits some pair of hosts, the first such pair: its goodput shows the port's rate.

    A transfer costs a second of the machine for a gigabyte, so of a large network `most` may be taken: evenly
    from the smallest bandwidth-delay product to the largest.
    """
    first: dict[str, Expectation] = {}
    for expectation in plan.expectations:
        if expectation.bottleneck is not None:
            first.setdefault(expectation.bottleneck, expectation)
    found = sorted(first.values(), key=lambda e: (e.rate or 0) * e.round_trip)
    if most is None or len(found) <= most:
        return tuple(found)
    return tuple(found[round(i * (len(found) - 1) / max(1, most - 1))] for i in range(most))


def _connection(net: Any, source: str, target: str, patience: float) -> tuple[socket.socket, socket.socket]:
    """A connected pair of sockets, one in each host."""
    address = (net.get(target).IP(), _PORT)
    with inside(net.get(target).namespace):
        listener = socket.create_server(address)
    with listener:
        listener.settimeout(patience)
        with inside(net.get(source).namespace):
            sender = socket.create_connection(address, timeout=patience)
        receiver, _ = listener.accept()
    sender.setblocking(False)
    receiver.setblocking(False)
    return sender, receiver


def _hold_open(sender: socket.socket, receiver: socket.socket, rate: float, window: int) -> None:
    """Let `window` bytes be on their way, enough for the link to be full and too few for its queue."""
    receiver.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, window)
    # The kernel doubles both. Half of the receiver's is its window; what the sender's has beyond the window
    # is only memory.
    receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, window + 2 * _CHUNK)
    sender.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, window * 3 // 4 + 2 * _CHUNK)
    sender.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", round(_PACE * rate / 8)))
    # Without a loss this is slow start up to the window, and nothing else.
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def _transfer(sender: socket.socket, receiver: socket.socket, mark: int, size: int, deadline: float) -> float:
    """Send a little more than `size` bytes; bit/s at which those from the first `mark` to `size` came in."""
    content, buffer = memoryview(bytes(_CHUNK)), bytearray(2 * _CHUNK)
    sent, received, whole = 0, 0, size + _TAIL
    passed: list[tuple[float, int]] = []
    poll = select.poll()
    poll.register(sender, select.POLLOUT)
    poll.register(receiver, select.POLLIN)
    while received < whole:
        goal = (mark, size, whole)[len(passed)]
        # A reader that asks for much at once is not woken by every packet.
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(_CHUNK, goal - received))
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{received} of {size} bytes arrived in the time that was given")
        for descriptor, _ in poll.poll(left * 1000):
            if descriptor == sender.fileno():
                sent += _send(sender, content[: whole - sent])
                if sent == whole:
                    poll.unregister(sender)
                continue
            count = receiver.recv_into(buffer)
            if count == 0:
                raise ConnectionError(f"the connection ended after {received} of {size} bytes")
            received += count
            if received >= goal:
                passed.append((time.monotonic(), received))
    (begin, first), (end, last) = passed[:2]
    return (last - first) * 8 / (end - begin)


def _send(sender: socket.socket, content: memoryview) -> int:
    """How many bytes the kernel took. Short of memory, it refuses although the socket has room."""
    try:
        return sender.send(content)
    except BlockingIOError:
        time.sleep(0.001)
        return 0


def disagreements(
    trips: tuple[RoundTrip, ...],
    goodputs: tuple[Goodput, ...],
    seconds: float = 1e-4,
    share: float = 0.01,
) -> list[str]:
    """What lies outside the tolerance, one sentence each.

    The tolerance is `seconds` of round trip beyond four standard errors of the jitter, and `share` of the
    goodput.
    """
    found = []
    for trip in trips:
        pair = f"{trip.source} to {trip.target}"
        if trip.measured is None:
            found.append(f"{pair}: no echo was answered")
        elif abs(trip.measured - trip.expected) > seconds + 4 * trip.uncertainty:
            found.append(f"{pair}: round trip {trip.measured * 1e3:.3f} ms, expected {trip.expected * 1e3:.3f} ms")
    for flow in goodputs:
        if flow.expected is not None and abs(flow.measured / flow.expected - 1) > share:
            found.append(
                f"{flow.source} to {flow.target}: {flow.measured / 1e6:.3f} Mbit/s over {flow.bottleneck}, "
                f"expected {flow.expected / 1e6:.3f}"
            )
    return found
