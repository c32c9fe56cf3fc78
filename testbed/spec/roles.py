"""Where roles beside `worker` run, as a network's file says it: `roles: {monitor: w1, gg: [server, w2]}`.

A host that has a role trains as before, except that a server among sites trains only if `workers` names it.
The workers of a preset are its `w1`, `w2`, ... whatever else they do.
"""

from __future__ import annotations

import keyword
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from pydantic import Field, PlainValidator

from testbed.network.model import Network, Placement
from testbed.spec.faults import Place, refusals, shown, unknown

SAMPLE = "{monitor: w1}"
_SHAPE = f'write it like "{SAMPLE}", or "{{monitor: [w1, w2]}}" for several.'


def _roles(value: Any) -> dict[str, tuple[str, ...]]:
    """A host or a list of hosts for each role."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} does not say where roles run; {_SHAPE}")
    findings: list[tuple[Place, str]] = []
    for role, hosts in value.items():
        findings += [((role, *place), message) for place, message in _faults(role, hosts)]
    if findings:
        raise refusals(findings)
    return {role: (hosts,) if isinstance(hosts, str) else tuple(hosts) for role, hosts in value.items()}


def _faults(role: str, hosts: Any) -> list[tuple[Place, str]]:
    if role in ("worker", "workers"):
        return [((), 'is not placed here; the key "workers" of the network says who trains.')]
    if not role.isidentifier() or keyword.iskeyword(role):
        return [((), f'{shown(role)} cannot name a role; write the name of its method, like "monitor".')]
    if isinstance(hosts, str):
        return []
    if not isinstance(hosts, list) or not hosts:
        return [((), f"{shown(hosts) if hosts else 'no host'} cannot run a role; {_SHAPE}")]
    found: list[tuple[Place, str]] = []
    for rank, host in enumerate(hosts):
        if not isinstance(host, str):
            found.append(((rank,), f"{shown(host)} is not the name of a host; {_SHAPE}"))
        elif host in hosts[:rank]:
            found.append(((rank,), f'"{host}" stands here twice; keep one.'))
    return found


Roles: TypeAlias = Annotated[dict[str, tuple[str, ...]], PlainValidator(_roles), Field(examples=[SAMPLE])]
"""The hosts of each role that is placed, in rank order."""


def strangers(roles: Mapping[str, tuple[str, ...]], hosts: Collection[str]) -> list[tuple[Place, str]]:
    """A finding for every host that the network does not have."""
    return [
        ((role,) if len(placed) == 1 else (role, rank), unknown(host, "a host of this network", hosts))
        for role, placed in roles.items()
        for rank, host in enumerate(placed)
        if host not in hosts
    ]


def with_roles(network: Network, roles: Mapping[str, tuple[str, ...]]) -> Network:
    """The network with roles placed. One server is the network's server, however it was written."""
    servers = roles.get("server", ())
    kept = tuple(Placement(role, hosts) for role, hosts in roles.items() if role != "server" or len(hosts) > 1)
    return replace(network, server=servers[0] if servers else network.server, roles=kept)
