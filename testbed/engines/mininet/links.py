"""Mininet's links and interfaces, made by netlink.

They keep the interface of their stock parents. Changes are queued on the node's netlink socket and
take effect at its next flush, at the latest when something runs in the node.
"""

from __future__ import annotations

import socket
import struct
from itertools import count
from typing import Any

from testbed.engines.mininet import netlink
from testbed.engines.mininet.netlink import attribute, attributes, number, text
from testbed.engines.mininet.nodes import NlNode
from testbed.engines.mininet.stock import Intf, Link
from testbed.network.plan import FIRST_INDEX, PREFIX, Wire

_UP = 1
_IFLA_ADDRESS, _IFLA_NAME, _IFLA_OPERSTATE, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 16, 18, 28
_IFLA_GSO_MAX_SEGS = 40
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_OPER_UP = 6
LOOPBACK = 1
"""The number of `lo` in every namespace."""
_free_index = count(FIRST_INDEX + 10_000_000)
"""For links that are added beside a plan."""


class NlIntf(Intf):  # type: ignore[misc]
    """An interface of a known number. Addresses are queued on the node's netlink socket."""

    index: int
    link: Any

    def config(self, mac: str | None = None, up: bool = True, **params: Any) -> dict[str, Any]:
        """The pair was made with its hardware address; here it is brought up and given its address."""
        self.index = params["index"]
        if params.get("ip"):
            self.setIP(params["ip"])
        if up:
            self.isUp(setUp=True)
        return {}

    def setIP(self, ipstr: str, prefixLen: int | None = None) -> None:
        """Add an IPv4 address."""
        if "/" in ipstr:
            ipstr, bits = ipstr.split("/")
            prefixLen = int(bits)
        if prefixLen is None:
            raise ValueError(f"{self.name}: no prefix length for {ipstr}")
        self.ip, self.prefixLen = ipstr, prefixLen
        add_address(self.node, self.index, ipstr, prefixLen)

    def setMAC(self, macstr: str) -> None:
        """Change the hardware address."""
        self.mac = macstr
        body = netlink.link(self.index) + attribute(_IFLA_ADDRESS, _mac(macstr))
        self._change(body, f"hardware address {macstr}")

    def isUp(self, setUp: bool = False) -> bool:
        """Whether the interface passes packets; with `setUp`, bring it up first."""
        if setUp:
            self._change(netlink.link(self.index, _UP, _UP), "up")
            return True
        return operating(self.node).get(self.index, False)

    def limit_segments(self, segments: int) -> None:
        """Hand on at most `segments` packets as one."""
        self._change(netlink.link(self.index) + number(_IFLA_GSO_MAX_SEGS, segments), f"{segments} segments")

    def _change(self, body: bytes, what: str) -> None:
        self.node.netlink.post(netlink.NEWLINK, 0, body, f"{self.node.name} {self.name}: {what}")

    def updateIP(self) -> str | None:
        """The address; nothing changes it behind our back."""
        return None if self.ip is None else str(self.ip)

    def updateMAC(self) -> str | None:
        """The hardware address; nothing changes it behind our back."""
        return None if self.mac is None else str(self.mac)

    def updateAddr(self) -> tuple[str | None, str | None]:
        """Address and hardware address."""
        return self.updateIP(), self.updateMAC()

    def delete(self) -> None:
        """Remove the pair from the kernel, unless the other end's removal took it along."""
        if self.link is not None:
            self.node.netlink.flush()
            if self.index in operating(self.node):
                what = f"{self.node.name} {self.name}: delete"
                self.node.netlink.post(netlink.DELLINK, 0, netlink.link(self.index), what)
                self.node.netlink.flush()
        self.node.delIntf(self)
        self.link = None

    def status(self) -> str:
        """OK, DOWN or MISSING."""
        state = operating(self.node).get(self.index)
        return "MISSING" if state is None else "OK" if state else "DOWN"


class NlLink(Link):  # type: ignore[misc]
    """A virtual Ethernet pair, made by one message with both ends where they belong."""

    def __init__(self, node1: Any, node2: Any, wire: Wire | None = None, **params: Any) -> None:
        """`wire` gives names, numbers and addresses; without it they are made up, and there are none."""
        params["intf"] = NlIntf
        ends: list[dict[str, Any]] = [dict(params.pop(f"params{n}", None) or {}) for n in (1, 2)]
        if wire is not None:
            params |= {"intfName1": wire.a.interface, "intfName2": wire.b.interface}
            params |= {"addr1": wire.a.mac, "addr2": wire.b.mac}
            ends = [
                {**given, "index": end.index, "ip": f"{end.address}/{PREFIX}"}
                for given, end in zip(ends, (wire.a, wire.b), strict=True)
            ]
        for end in ends:
            end.setdefault("index", next(_free_index))
        self._indices = [end["index"] for end in ends]
        super().__init__(node1, node2, params1=ends[0], params2=ends[1], **params)

    def makeIntfPair(
        self, name1: str, name2: str, mac1: str, mac2: str, node1: NlNode, node2: NlNode, **_: Any
    ) -> None:
        """Called by the parent's constructor. The pair exists when this returns."""
        first, second = self._indices
        peer = netlink.link(second) + text(_IFLA_NAME, name2) + attribute(_IFLA_ADDRESS, _mac(mac2))
        peer += number(_IFLA_NET_NS_FD, node2.namespace)
        kind = text(_INFO_KIND, "veth") + attribute(_INFO_DATA, attribute(_VETH_PEER, peer))
        body = netlink.link(first) + text(_IFLA_NAME, name1) + attribute(_IFLA_ADDRESS, _mac(mac1))
        body += attribute(_IFLA_LINKINFO, kind)
        what = f"wire {node1.name} {name1} to {node2.name} {name2}"
        node1.netlink.post(netlink.NEWLINK, netlink.CREATE | netlink.EXCL, body, what)
        node1.netlink.flush()


def add_address(node: NlNode, index: int, address: str, bits: int) -> None:
    """Queue an IPv4 address for interface `index`."""
    packed = socket.inet_aton(address)
    body = struct.pack("=BBBBI", socket.AF_INET, bits, 0, 0, index)
    body += attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
    what = f"{node.name}: address {address}/{bits}"
    node.netlink.post(netlink.NEWADDR, netlink.CREATE | netlink.REPLACE, body, what)


def operating(node: NlNode) -> dict[int, bool]:
    """By interface number, whether it passes packets: `up` alone drops them until the kernel says so."""
    states = {}
    for body in node.netlink.dump(netlink.GETLINK, netlink.link(0), f"{node.name}: interfaces"):
        (index,) = struct.unpack_from("=i", body, 4)
        state = attributes(body[16:]).get(_IFLA_OPERSTATE, b"\0")[0]
        states[index] = index == LOOPBACK or state == _OPER_UP
    return states


def _mac(address: str) -> bytes:
    return bytes.fromhex(address.replace(":", ""))
