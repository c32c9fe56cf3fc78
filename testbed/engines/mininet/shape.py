"""Shaping the ports of a network, reading every setting back, changing it in place, counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.engines.mininet import netlink, qdisc
from testbed.engines.mininet.netlink import traffic
from testbed.engines.mininet.nodes import NlNode
from testbed.engines.mininet.qdisc import Counters
from testbed.network.model import Channel
from testbed.network.plan import Plan, Port

_NEW = netlink.CREATE | netlink.EXCL


class ShapingError(RuntimeError):
    """The kernel's setting of a port is not what was asked for."""

    def __init__(self, node: str, port: str, setting: str, wanted: object, found: object) -> None:
        super().__init__(f"{node}, port {port}: {setting} should be {wanted} and is {found}")
        self.node, self.port, self.setting, self.wanted, self.found = node, port, setting, wanted, found


@dataclass(frozen=True)
class PortCounters:
    """What has left a port since it was shaped."""

    bytes: int
    """Ethernet frames, without preamble, checksum and gap."""
    packets: int
    drops: int
    """Bundles of packets that found the queue full; how large one is at most, the plan says."""
    lost: int
    """Bundles that the channel lost by chance."""
    backlog: int
    """bytes waiting for the rate now."""


def shape(net: Any, plan: Plan) -> None:
    """Give every port its channel and read it back.

    Raises OSError that names what the kernel refused, ShapingError where it did something else.
    """
    for port in plan.ports:
        _install(net.get(port.node), port, port.channel)
    for node in _nodes(net, plan):
        node.netlink.flush()
    verify(net, plan)


def verify(net: Any, plan: Plan) -> None:
    """Compare every setting of every port with the plan; ShapingError on the first that differs."""
    found = {node.name: _settings(node) for node in _nodes(net, plan)}
    for port in plan.ports:
        _compare(port, port.channel, found[port.node])


def change(net: Any, port: Port, channel: Channel) -> None:
    """Make `channel` the port's while packets are on their way, and read it back.

    A channel with a rate has to come with its queue filled in. Only a port that gains or loses its rate is
    built anew, which drops what waits there. `port.channel` stays what the plan says, so `verify` would
    complain from then on.
    """
    node = net.get(port.node)
    shaped = (port.index, qdisc.HTB) in _settings(node)
    if shaped != (channel.rate is not None):
        what = f"{port.node} {port.interface}: remove the queues"
        node.netlink.post(netlink.DELQDISC, 0, traffic(port.index, qdisc.NETEM, qdisc.ROOT), what)
        _install(node, port, channel)
    else:
        _post(node, port, channel, 0)
    node.netlink.flush()
    _compare(port, channel, _settings(node))


def port_counters(net: Any, plan: Plan) -> dict[str, PortCounters]:
    """Counters by port name. A port must have been shaped."""
    found = {node.name: _counters(node) for node in _nodes(net, plan)}
    result = {}
    for port in plan.ports:
        outer = found[port.node][port.index, qdisc.NETEM]
        inner = found[port.node].get((port.index, qdisc.FIFO), Counters(0, 0, 0, 0))
        # netem counts what it lost itself together with what the queue below it turned away.
        lost = outer.drops - inner.drops
        result[port.name] = PortCounters(outer.bytes, outer.packets, inner.drops, lost, inner.backlog)
    return result


def _nodes(net: Any, plan: Plan) -> list[NlNode]:
    return [net.get(name) for name in dict.fromkeys(port.node for port in plan.ports)]


def _install(node: NlNode, port: Port, channel: Channel) -> None:
    _post(node, port, channel, _NEW)


def _post(node: NlNode, port: Port, channel: Channel, flags: int) -> None:
    """Queue the messages of a port: to make its queues, or with no flags to change them in place."""
    where, post = f"{port.node} {port.interface}", node.netlink.post
    post(netlink.NEWQDISC, flags, qdisc.netem(port.index, channel), f"{where}: netem")
    if channel.rate is None:
        return
    if flags:
        post(netlink.NEWQDISC, flags, qdisc.htb(port.index), f"{where}: htb")
    post(netlink.NEWTCLASS, flags, qdisc.htb_class(port.index, channel), f"{where}: htb class")
    post(netlink.NEWQDISC, flags, qdisc.fifo(port.index, channel), f"{where}: bfifo")


_Found = dict[tuple[int, int], tuple[str, dict[str, int]]]


def _settings(node: NlNode) -> _Found:
    """Kind and settings of all queues and classes of a node, by interface number and handle."""
    found: _Found = {}
    bodies = node.netlink.dump(netlink.GETQDISC, traffic(0), f"{node.name}: queues")
    indices = {}
    for body in bodies:
        index, handle, kind, settings, _ = qdisc.read(body)
        found[index, handle] = kind, settings
        indices[index] = True
    for index in indices:
        if (index, qdisc.HTB) in found:
            for body in node.netlink.dump(netlink.GETTCLASS, traffic(index), f"{node.name}: classes"):
                _, handle, kind, settings, _ = qdisc.read(body)
                if handle == qdisc.CLASS:
                    found[index, handle] = kind, settings
    return found


def _counters(node: NlNode) -> dict[tuple[int, int], Counters]:
    result = {}
    for body in node.netlink.dump(netlink.GETQDISC, traffic(0), f"{node.name}: counters"):
        index, handle, _, _, counters = qdisc.read(body)
        result[index, handle] = counters
    return result


def _compare(port: Port, channel: Channel, found: _Found) -> None:
    wanted = {qdisc.NETEM: ("netem", qdisc.netem_settings(channel))}
    if channel.rate is not None:
        wanted[qdisc.HTB] = "htb", {}
        wanted[qdisc.CLASS] = "htb", qdisc.htb_settings(channel)
        wanted[qdisc.FIFO] = "bfifo", qdisc.fifo_settings(channel)
    for handle, (kind, settings) in wanted.items():
        actual_kind, actual = found.get((port.index, handle), ("none", {}))
        if actual_kind != kind:
            raise ShapingError(port.node, port.interface, f"queue {handle >> 16}:", kind, actual_kind)
        for name, value in settings.items():
            if actual.get(name) != value:
                raise ShapingError(port.node, port.interface, f"{kind} {name}", value, actual.get(name))
