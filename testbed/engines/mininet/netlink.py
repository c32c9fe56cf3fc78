"""The kernel's own configuration protocol, spoken directly: no program is started.

Requests are queued and sent in batches of which only the last is acknowledged; the kernel still
reports each one that fails. Numbers are in the machine's byte order unless named otherwise, as the
protocol wants it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from testbed.engines.mininet.namespaces import inside

NEWLINK, DELLINK, GETLINK = 16, 17, 18
NEWADDR = 20
NEWROUTE = 24
NEWNEIGH = 28
NEWQDISC, DELQDISC, GETQDISC = 36, 37, 38
NEWTCLASS, GETTCLASS = 40, 42

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
REPLACE, EXCL, CREATE = 0x100, 0x200, 0x400

_NOOP, _ERROR, _DONE = 1, 2, 3
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_NESTED = 0x8000
_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11
_BATCH = 32_768
"""bytes; well below a socket's send buffer."""
_ANSWER = 1 << 16
"""bytes; the most the kernel puts in one datagram of a dump is half of this."""
_TIMEOUT = 10.0
"""seconds; the kernel answers at once, so silence is a fault."""


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded to four bytes."""
    return _ATTRIBUTE.pack(4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def number(kind: int, value: int) -> bytes:
    """An attribute that holds 32 bits."""
    return attribute(kind, struct.pack("=I", value & 0xFFFFFFFF))


def text(kind: int, value: str) -> bytes:
    """An attribute that holds a zero-terminated string."""
    return attribute(kind, value.encode() + b"\0")


def attributes(data: bytes) -> dict[int, bytes]:
    """The attributes in `data` by kind; the last of a kind wins."""
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < 4:
            break
        found[kind & ~_NESTED] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def link(index: int, flags: int = 0, change: int = 0) -> bytes:
    """The fixed part of a message about an interface (struct ifinfomsg)."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def traffic(index: int, handle: int = 0, parent: int = 0) -> bytes:
    """The fixed part of a message about a queue (struct tcmsg)."""
    return struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, parent, 0)


class Netlink:
    """A route socket bound for good to the namespace it was opened in."""

    def __init__(self, namespace: int) -> None:
        with inside(namespace):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(_TIMEOUT)
        self._socket.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
        self._sequence = 0
        self._queue: list[tuple[int, int, bytes, str]] = []

    def close(self) -> None:
        """Give the descriptor back."""
        self._socket.close()

    def post(self, kind: int, flags: int, body: bytes, what: str) -> None:
        """Queue a request; `what` names it in the error that `flush` may raise."""
        self._queue.append((kind, flags, body, what))

    def flush(self) -> None:
        """Send what is queued and wait until the kernel has done it.

        Raises OSError with the name of the first request that failed; later ones were tried too.
        """
        queue, self._queue = self._queue, []
        failure: OSError | None = None
        while queue:
            size, count = 0, 0
            while count < len(queue) and (count == 0 or size + len(queue[count][2]) < _BATCH):
                size += _HEADER.size + len(queue[count][2])
                count += 1
            problem = self._exchange(queue[:count])
            failure = failure or problem
            queue = queue[count:]
        if failure:
            raise failure

    def _exchange(self, batch: list[tuple[int, int, bytes, str]]) -> OSError | None:
        names: dict[int, str] = {}
        packet = b""
        for position, (kind, flags, body, what) in enumerate(batch, start=1):
            last = position == len(batch)
            packet += self._message(kind, flags | REQUEST | (ACK if last else 0), body)
            names[self._sequence] = what
        final = self._sequence
        self._socket.send(packet)
        failure: OSError | None = None
        while True:
            for kind, sequence, flags, body in self._receive():
                if kind != _ERROR or sequence not in names:
                    continue
                failure = failure or _problem(body, flags, names[sequence])
                if sequence == final:
                    return failure

    def dump(self, kind: int, body: bytes, what: str) -> list[bytes]:
        """The whole answer to a dump request: the bodies of its messages."""
        self.flush()
        self._socket.send(self._message(kind, REQUEST | DUMP, body))
        wanted = self._sequence
        bodies: list[bytes] = []
        while True:
            # Read to the end always: what is left would answer the next request.
            for answer, sequence, flags, content in self._receive():
                if sequence != wanted:
                    continue
                if answer == _DONE:
                    return bodies
                if answer == _ERROR:
                    problem = _problem(content, flags, what)
                    if problem:
                        raise problem
                elif answer != _NOOP:
                    bodies.append(content)

    def _message(self, kind: int, flags: int, body: bytes) -> bytes:
        self._sequence += 1
        padding = bytes(-len(body) % 4)
        return _HEADER.pack(_HEADER.size + len(body), kind, flags, self._sequence, 0) + body + padding

    def _receive(self) -> Iterator[tuple[int, int, int, bytes]]:
        data = self._socket.recv(_ANSWER)
        while len(data) >= _HEADER.size:
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data)
            yield kind, sequence, flags, data[_HEADER.size : length]
            data = data[(length + 3) & ~3 :]


def _problem(body: bytes, flags: int, what: str) -> OSError | None:
    """The failure in an acknowledgement, with the kernel's own words where it gives them."""
    (code,) = struct.unpack_from("=i", body)
    if code == 0:
        return None
    # An acknowledgement holds the error, the header of the request, then the attributes.
    words = attributes(body[4 + _HEADER.size :]).get(1, b"") if flags & 0x200 else b""
    detail = f" ({words.rstrip(bytes(1)).decode(errors='replace')})" if words else ""
    return OSError(-code, f"{what}: {os.strerror(-code)}{detail}")
