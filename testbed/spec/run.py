"""One run, frozen and complete: all that an engine needs, with no file left to read.

An experiment file expands into one `RunSpec` per algorithm and seed. Times are seconds, sizes are
bytes, rates are bit/s. The classes are plain dataclasses, because the guest reads them too and has
no use for a validator.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from typing import Any

from testbed.network.model import Network


@dataclass(frozen=True)
class Tcp:
    """How every connection behaves."""

    congestion: str = "cubic"
    slow_start_after_idle: bool = True
    """Whether an idle connection falls back to its first window (RFC 2861)."""
    buffer: int | None = None
    """bytes, the most a socket may buffer; None takes four times the largest bandwidth-delay product."""


@dataclass(frozen=True)
class Workload:
    """What is learnt."""

    data: str
    model: str
    batch: int
    """samples in a mini-batch."""
    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    partition: str = "iid"


@dataclass(frozen=True)
class Jitter:
    """Random factor on each step's time, of mean 1."""

    kind: str = "none"
    """none or lognormal."""
    sigma: float = 0.0
    """standard deviation of the factor's logarithm."""


@dataclass(frozen=True)
class Compute:
    """How long a mini-batch takes."""

    step: float
    """seconds of one mini-batch gradient on a worker of speed 1."""
    slowdown: tuple[float, ...] = ()
    """factor on `step`, one per worker in rank order."""
    jitter: Jitter = Jitter()


@dataclass(frozen=True)
class Horizon:
    """When a run ends and how closely it is watched."""

    time: float
    """seconds of virtual time."""
    evaluate_every: float
    """seconds between evaluated snapshots."""
    target: float
    """test accuracy in 0 to 1 that the comparison asks for."""


@dataclass(frozen=True)
class AlgorithmChoice:
    """An algorithm and the hyper-parameters that differ from its defaults."""

    name: str
    """the file's name in `algorithms/`."""
    label: str
    """how tables and folders call it; differs from `name` where one file runs with two settings."""
    hyper: dict[str, Any] = field(default_factory=dict)
    file: str = ""
    """absolute path of an algorithm from outside the project; empty for one of `algorithms/`."""


@dataclass(frozen=True)
class Failure:
    """A host whose processes die while the run goes on."""

    host: str
    time: float
    """seconds since training began."""


@dataclass(frozen=True)
class FlowModel:
    """What the `sim` engine's model of the network takes into account."""

    slow_start: bool = True
    """Whether connections begin with small windows, as TCP does; else a message takes latency + bytes / rate."""


@dataclass(frozen=True)
class RunSpec:
    """One algorithm on one network with one seed."""

    experiment: str
    algorithm: AlgorithmChoice
    seed: int
    network: Network
    tcp: Tcp
    workload: Workload
    compute: Compute
    horizon: Horizon
    engine: str = "virtual"
    failures: tuple[Failure, ...] = ()
    sim: FlowModel = FlowModel()


def to_plain(value: Any) -> Any:
    """A dataclass as dicts, lists and scalars, ready for JSON or YAML."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [to_plain(item) for item in sorted(value, key=repr)]  # a set of words has no order that repeats
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    return value


_COLLECTIONS = (tuple, list, set, frozenset)


def from_plain(kind: Any, value: Any) -> Any:
    """The inverse of `to_plain` for a type built from dataclasses, collections, optionals and scalars.

    Where a union leaves open what a value was, it stays as it is.
    """
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return typing.cast(Any, kind)(**{name: from_plain(hints[name], v) for name, v in value.items()})
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is typing.Annotated:
        return from_plain(arguments[0], value)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _from_union([a for a in arguments if a is not type(None)], value)
    if origin in _COLLECTIONS:
        return origin(from_plain(k, v) for k, v in zip(_kinds(origin, arguments, len(value)), value, strict=True))
    if origin is dict and arguments:
        return {key: from_plain(arguments[1], item) for key, item in value.items()}
    return float(value) if kind is float and value is not None else value


def _from_union(kinds: list[Any], value: Any) -> Any:
    if len(kinds) > 1 and isinstance(value, list):
        kinds = [kind for kind in kinds if (typing.get_origin(kind) or kind) in _COLLECTIONS]
    return from_plain(kinds[0], value) if len(kinds) == 1 else value


def _kinds(origin: Any, arguments: tuple[Any, ...], length: int) -> tuple[Any, ...]:
    """The type of each item of a collection."""
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return arguments
    return (arguments[0] if arguments else Any,) * length
