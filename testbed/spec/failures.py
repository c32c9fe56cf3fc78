"""Nodes whose processes die in the middle of a run, as a file says it: `failures: {w3: 30 s}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import Field, PlainValidator

from testbed.network.model import Network
from testbed.spec.faults import Place, refusals, shown, unknown
from testbed.spec.run import Failure
from testbed.spec.units import DURATION, parse

SAMPLE = "{w3: 30 s}"


def _failures(value: Any) -> tuple[Failure, ...]:
    """A moment for each node, in the order of time and then of names."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} does not say which node dies when; write it like {SAMPLE}.")
    found: list[Failure] = []
    findings: list[tuple[Place, str]] = []
    for node, moment in value.items():
        try:
            found.append(Failure(node, parse(moment, DURATION)))
        except ValueError as error:
            findings.append(((node,), str(error)))
    if findings:
        raise refusals(findings)
    return tuple(sorted(found, key=lambda failure: (failure.time, failure.host)))


Failures: TypeAlias = Annotated[tuple[Failure, ...], PlainValidator(_failures), Field(examples=[SAMPLE])]
"""Sorted by time, then by name."""


def unfit(failures: Sequence[Failure], network: Network | None, end: float | None) -> list[tuple[Place, str]]:
    """A finding for whoever takes no part, and for every moment outside the run; None is not looked at."""
    findings: list[tuple[Place, str]] = []
    for failure in failures:
        if network is not None and failure.host not in (nodes := _taking_part(network)):
            findings.append(((failure.host,), unknown(failure.host, "a host that takes part", nodes)))
        if failure.time <= 0 or (end is not None and failure.time >= end):
            limit = "" if end is None else f" and less than {end:g} s, the run's end"
            findings.append(((failure.host,), f"{failure.time:g} s must be more than 0 s{limit}."))
    return findings


def _taking_part(network: Network) -> list[str]:
    placed = [host for placement in network.roles for host in placement.hosts]
    return list(dict.fromkeys([*network.workers, *network.hosts_of("server"), *placed]))
