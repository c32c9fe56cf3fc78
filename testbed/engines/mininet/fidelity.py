"""The certificate of a network: every round trip and every limiting port, measured before training."""

from __future__ import annotations

from typing import Any

from testbed.engines.mininet import probe
from testbed.network.plan import Plan
from testbed.spec.run import to_plain

MOST_FLOWS = 20
"""bulk transfers at most; a large mesh has a hundred ports, and one transfer costs some 20 ms."""


def measure(net: Any, plan: Plan) -> dict[str, Any]:
    """What `fidelity.json` holds: measurements, tolerances, and one sentence for each disagreement."""
    trips = probe.round_trips(net, plan)
    pairs = probe.witnesses(plan, most=MOST_FLOWS)
    flows = tuple(probe.goodput(net, plan, pair.source, pair.target) for pair in pairs)
    return {
        "round_trips": to_plain(trips),
        "goodputs": to_plain(flows),
        "tolerance": {"round_trip_seconds": 1e-4, "goodput_share": 0.01},
        "degraded": probe.disagreements(trips, flows, seconds=1e-4, share=0.01),
    }
