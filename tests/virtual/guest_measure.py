"""In the guest: build a plan from a file, shape it, measure it, print what was found."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from testbed.engines.mininet import probe
from testbed.engines.mininet.build import build, widen_tcp_memory
from testbed.engines.mininet.shape import port_counters, shape
from testbed.network.plan import Plan
from testbed.spec.run import from_plain, to_plain


def main(path: str, samples: str = "30", size: str = "0") -> None:
    plan = from_plain(Plan, json.loads(Path(path).read_text()))
    widen_tcp_memory()
    net = build(plan)
    shape(net, plan)
    trips = probe.round_trips(net, plan, int(samples))
    flows = tuple(probe.goodput(net, plan, e.source, e.target, int(size) or None) for e in probe.witnesses(plan))
    result = {
        "trips": to_plain(trips),
        "flows": to_plain(flows),
        "disagreements": probe.disagreements(trips, flows),
        "counters": {name: to_plain(found) for name, found in port_counters(net, plan).items()},
        "until": time.monotonic(),
    }
    net.stop()
    print(json.dumps(result))


main(*sys.argv[1:])
