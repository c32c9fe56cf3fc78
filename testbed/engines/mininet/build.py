"""From a plan to a running Mininet network.

The object graph is Mininet's own: `net.get`, `net.links`, `node.cmd`, `net.pingAll`, the command line.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from itertools import chain
from typing import Any

from testbed.engines.mininet import netlink
from testbed.engines.mininet.links import LOOPBACK, NlLink, add_address, operating
from testbed.engines.mininet.netlink import attribute
from testbed.engines.mininet.nodes import NlHost, NlNode, NlRouter
from testbed.engines.mininet.stock import Mininet
from testbed.network.plan import End, Plan

_RTA_DST, _RTA_GATEWAY, _RTA_PREFSRC = 1, 5, 7
_TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_UNIVERSE, _UNICAST = 254, 4, 0, 1
_NDA_DST, _NDA_LLADDR = 1, 2
_NUD_PERMANENT = 0x80
_UP_WITHIN = 30.0
"""seconds; the kernel looks at new interfaces once a second."""
_UP_PAUSE = 0.05


class NlMininet(Mininet):  # type: ignore[misc]
    """Mininet with routers beside hosts: `hosts` is who talks, `routers` is what lies between."""

    def __init__(self) -> None:
        self.routers: list[NlRouter] = []
        super().__init__(build=False, link=NlLink, host=NlHost, controller=None)

    def add_router(self, name: str, address: str) -> NlRouter:
        """A router that answers at `address`."""
        router = NlRouter(name, address=address)
        self.routers.append(router)
        self.nameToNode[name] = router
        return router

    def __iter__(self) -> Any:
        return (node.name for node in chain(self.hosts, self.routers, self.switches, self.controllers))

    def __len__(self) -> int:
        return int(super().__len__()) + len(self.routers)

    def stop(self) -> None:
        """Stop everything. Wires go with their namespaces, at no cost of their own."""
        self.links.clear()
        super().stop()
        for router in self.routers:
            router.terminate()


def build(plan: Plan) -> NlMininet:
    """The network of `plan`, started, every interface passing packets, nothing shaped yet.

    Needs the right to make network namespaces. Raises OSError that names what the kernel refused, and
    TimeoutError when interfaces do not come up; what was made until then is removed.
    """
    net = NlMininet()
    try:
        for router in plan.routers:
            net.add_router(router.name, router.address)
        for host in plan.hosts:
            net.addHost(host.name, ip=None)
        _write_sysctls(net, plan)
        for wire in plan.wires:
            net.addLink(wire.a.node, wire.b.node, cls=NlLink, wire=wire)
        _flush(net)
        _add_neighbours_and_routes(net, plan)
        _limit_segments(net, plan)
        _flush(net)
        _wait_until_up(net)
        net.built = True
        net.start()
    except BaseException:
        net.stop()
        raise
    return net


def widen_tcp_memory() -> None:
    """Let all sockets together use half of the machine's memory; by default they share a tenth.

    For a machine of one's own, such as a guest: the setting is the whole machine's. A few full windows of
    fat links exceed the default, and the kernel then shrinks them in silence.
    """
    with open("/proc/meminfo") as file:
        kilobytes = int(file.readline().split()[1])
    most = kilobytes * 1024 // os.sysconf("SC_PAGE_SIZE") // 2
    with open("/proc/sys/net/ipv4/tcp_mem", "w") as file:
        file.write(f"{most // 2} {most * 3 // 4} {most}")


def address(host: NlNode) -> str:
    """The IPv4 address of a node."""
    return str(host.IP())


def namespace_fd(node: NlNode) -> int:
    """A descriptor of the node's network namespace, for setns; it is the node's own, so do not close it."""
    return node.namespace


def _flush(net: NlMininet) -> None:
    for node in net.values():
        node.netlink.flush()


def _write_sysctls(net: NlMininet, plan: Plan) -> None:
    """Before there are interfaces, because they take their own settings from the defaults."""
    for setting in plan.sysctls:
        for node in (net.hosts if setting.hosts else []) + (net.routers if setting.routers else []):
            node.write_sysctl(setting.key, setting.value)


def _add_neighbours_and_routes(net: NlMininet, plan: Plan) -> None:
    for wire in plan.wires:
        _add_neighbour(net.get(wire.a.node), wire.a, wire.b)
        _add_neighbour(net.get(wire.b.node), wire.b, wire.a)
    own = {router.name: router.address for router in plan.routers}
    for router in plan.routers:
        add_address(net.get(router.name), LOOPBACK, router.address, 32)
    for route in plan.routes:
        _add_route(net.get(route.node), route.prefix, route.bits, route.gateway, own[route.node])
    for host in plan.hosts:
        _add_route(net.get(host.name), "0.0.0.0", 0, host.gateway, host.address)


def _add_neighbour(node: NlNode, near: End, far: End) -> None:
    body = struct.pack("=BxxxiHBB", socket.AF_INET, near.index, _NUD_PERMANENT, 0, 0)
    body += attribute(_NDA_DST, socket.inet_aton(far.address))
    body += attribute(_NDA_LLADDR, bytes.fromhex(far.mac.replace(":", "")))
    what = f"{node.name}: neighbour {far.address} on {near.interface}"
    node.netlink.post(netlink.NEWNEIGH, netlink.CREATE | netlink.REPLACE, body, what)


def _add_route(node: NlNode, prefix: str, bits: int, gateway: str, source: str) -> None:
    """A route; packets of the node itself leave with the address `source`, which others can answer."""
    body = struct.pack("=8BI", socket.AF_INET, bits, 0, 0, _TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_UNIVERSE, _UNICAST, 0)
    if bits:
        body += attribute(_RTA_DST, socket.inet_aton(prefix))
    body += attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
    body += attribute(_RTA_PREFSRC, socket.inet_aton(source))
    what = f"{node.name}: route {prefix}/{bits} via {gateway}"
    node.netlink.post(netlink.NEWROUTE, netlink.CREATE | netlink.EXCL, body, what)


def _limit_segments(net: NlMininet, plan: Plan) -> None:
    hosts = {host.name for host in plan.hosts}
    for wire in plan.wires:
        for end in (wire.a, wire.b):
            if end.node in hosts:
                net.get(end.node).nameToIntf[end.interface].limit_segments(plan.segments)


def _wait_until_up(net: NlMininet) -> None:
    """Until the kernel has seen the carrier, an interface that is up drops everything in silence."""
    deadline = time.monotonic() + _UP_WITHIN
    waiting = list(net.values())
    while waiting := [node for node in waiting if not all(operating(node).values())]:
        if time.monotonic() > deadline:
            names = ", ".join(str(node) for node in waiting)
            raise TimeoutError(f"after {_UP_WITHIN:.0f} s interfaces are still down on {names}")
        time.sleep(_UP_PAUSE)
