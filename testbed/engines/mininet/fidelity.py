"""The certificate of a network, measured before training: every round trip, and up to 20 limiting ports.

Where a path loses packets or jitters, TCP does not fill it: there the round trip alone is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testbed.engines.mininet import probe
from testbed.network.plan import Plan
from testbed.spec.run import to_plain

ROUND_TRIP_TOLERANCE = 1e-4  # seconds
GOODPUT_TOLERANCE = 0.01  # share
MOST_FLOWS = 20
"""bulk transfers at most; a large mesh has a hundred ports, and one transfer costs some 20 ms."""


def measure(net: Any, plan: Plan, tell: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """What `fidelity.json` holds: measurements, tolerances, and one sentence for each disagreement.

    `tell` is called before each transfer.
    """
    trips = probe.round_trips(net, plan)
    pairs = probe.witnesses(plan, most=MOST_FLOWS)
    flows = []
    for pair in pairs:
        tell()
        flows.append(probe.goodput(net, plan, pair.source, pair.target))
    return {
        "round_trips": to_plain(trips),
        "goodputs": to_plain(flows),
        "tolerance": {"round_trip_seconds": ROUND_TRIP_TOLERANCE, "goodput_share": GOODPUT_TOLERANCE},
        "degraded": probe.disagreements(trips, tuple(flows), ROUND_TRIP_TOLERANCE, GOODPUT_TOLERANCE),
    }
