"""In the guest: many datagrams one way over a lossy and over a jittering link; how many and how late."""

from __future__ import annotations

import json
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from testbed.engines.mininet.build import address, build, namespace_fd
from testbed.engines.mininet.namespaces import inside
from testbed.engines.mininet.shape import port_counters, shape
from testbed.network.plan import Plan
from testbed.spec.run import from_plain

COUNT = 4000


def delays(net: Any, source: str, target: str) -> list[float]:
    """One-way delay of those of COUNT datagrams that arrive, in seconds. Both ends share the clock."""
    with inside(namespace_fd(net.get(target))):
        inlet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inlet.bind((address(net.get(target)), 5000))
    inlet.settimeout(0.5)
    with inside(namespace_fd(net.get(source))):
        outlet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found = []
    for _ in range(COUNT):
        sent = time.monotonic()
        outlet.sendto(b"x", (address(net.get(target)), 5000))
        try:
            inlet.recv(16)
        except TimeoutError:
            continue
        found.append(time.monotonic() - sent)
    return found


def main(path: str) -> None:
    plan = from_plain(Plan, json.loads(Path(path).read_text()))
    net = build(plan)
    shape(net, plan)
    lossy, jittery = delays(net, "h1", "h2"), delays(net, "h2", "h3")
    result = {
        "arrived": len(lossy) / COUNT,
        "lost": port_counters(net, plan)["a>b"].lost,
        "steady": [min(lossy), max(lossy)],
        "mean": statistics.mean(jittery),
        "deviation": statistics.stdev(jittery),
        "within one deviation": sum(abs(x - 0.020) < 0.002 for x in jittery) / len(jittery),
    }
    net.stop()
    print(json.dumps(result))


main(*sys.argv[1:])
