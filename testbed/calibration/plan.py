"""Which runs a calibration needs: the experiment's own with its first seed, and the probes on its network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from testbed.network.model import Network, Placement
from testbed.network.routes import bottleneck, round_trip
from testbed.spec.run import AlgorithmChoice, Horizon, RunSpec

FOLDER = Path(__file__).parent / "probes"
MOST_BYTES = 20_000_000
"""of one probe; more would cost the virtual engine seconds and tell nothing else."""
MOST_MESSAGES = 10
"""from each sender; by then every window is as large as it gets."""
ROOM = 10.0
"""How many times longer than at full rate a probe may take: queues, slow starts, losses."""


def first_seed(runs: Sequence[RunSpec]) -> list[RunSpec]:
    """The runs to compare: every algorithm once. Another seed draws other batches, not another network."""
    return [run for run in runs if run.seed == runs[0].seed]


def probes(run: RunSpec, model_bytes: int) -> list[RunSpec]:
    """The probes on a run's network, with messages of `model_bytes`; none where only one host takes part."""
    found: list[RunSpec] = []
    pair = slowest_pair(run.network)
    if pair is not None:
        count = _messages(model_bytes, 2)
        there, back = (bottleneck(run.network, *ends) for ends in (pair, pair[::-1]))
        seconds = _seconds(run.network, pair, count * model_bytes, min(there or 1e9, back or 1e9))
        network = _placed(run.network, left=pair[0], right=pair[1])
        for label, pull in (("both-ways-push", False), ("both-ways-pull", True)):
            choice = _choice("both_ways", label, messages=count, pull=pull)
            found.append(_probe(run, choice, network, seconds))
    sink = run.network.server or run.network.workers[0]
    senders = [worker for worker in run.network.workers if worker != sink]
    if senders:
        count = _messages(model_bytes, len(senders))
        rates = [bottleneck(run.network, worker, sink) or 1e9 for worker in senders]
        far = max(((worker, sink) for worker in senders), key=lambda ends: round_trip(run.network, *ends))
        seconds = _seconds(run.network, far, count * model_bytes * len(senders), min(rates))
        choice = _choice("into_one", "into-one", messages=count, idle=sink if sink in run.network.workers else "")
        found.append(_probe(run, choice, _placed(run.network, sink=sink), seconds))
    return found


def slowest_pair(network: Network) -> tuple[str, str] | None:
    """Two participating hosts whose bottleneck is the slowest there is, the nearest such pair."""
    hosts = sorted({*network.workers, *([network.server] if network.server else [])}, key=network.hosts.index)
    pairs = list(permutations(hosts, 2))
    rate = {pair: bottleneck(network, *pair) or float("inf") for pair in pairs}
    return min(pairs, key=lambda pair: (rate[pair], round_trip(network, *pair)), default=None)


def _messages(model_bytes: int, senders: int) -> int:
    return max(1, min(MOST_MESSAGES, MOST_BYTES // (model_bytes * senders)))


def _seconds(network: Network, pair: tuple[str, str], size: int, rate: float) -> float:
    """Far more than the probe needs: bytes at the rate, and a round trip for each of a hundred windows."""
    return ROOM * (size * 8 / rate + 10 * round_trip(network, *pair) + 1.0)


def _placed(network: Network, **roles: str) -> Network:
    return replace(network, roles=tuple(Placement(role, (host,)) for role, host in roles.items()))


def _choice(name: str, label: str, **hyper: object) -> AlgorithmChoice:
    return AlgorithmChoice(name, label, hyper, str(FOLDER / f"{name}.py"))


def _probe(run: RunSpec, choice: AlgorithmChoice, network: Network, seconds: float) -> RunSpec:
    horizon = Horizon(seconds, seconds, run.horizon.target)
    return replace(run, experiment=run.engine, algorithm=choice, network=network, horizon=horizon, failures=())
