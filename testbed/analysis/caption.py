"""What a figure shows, in words: the network, the workload, the seeds, the engine, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.analysis.simulated import truth_in_words
from testbed.network.model import Channel, Network
from testbed.record.results import Results
from testbed.spec.run import Compute, RunSpec, Tcp

ENGINES = {
    "virtual": "virtual time: emulated network, Linux TCP",
    "sim": "SIMULATED: flow-level model of the network",
    "live": "wall-clock time: emulated network, Linux TCP",
}
UNITS = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))


def network_in_words(network: Network) -> str:
    """For example "8 workers, star, 10-100 Mbit/s, RTT 20-200 ms"; rates and RTT are those of single links.

    Where there are no links between sites, the hosts' own links to the site's router count.
    """
    workers = len(network.workers)
    words = [f"{workers} worker{'s' if workers != 1 else ''}", network.name]
    if network.links:
        channels = [channel for link in network.links for channel in (link.forward, link.backward)]
        trips = [link.round_trip for link in network.links]
    else:
        channels = [site.lan for site in network.sites]
        trips = [2 * site.lan.delay for site in network.sites]
    words += _rates(channels)
    if any(trips):
        words.append(f"RTT {span(1e3 * trip for trip in trips)} ms")
    losses = [100 * channel.loss for channel in channels]
    if any(losses):
        words.append(f"loss {span(losses)} %")
    return ", ".join(words)


def _rates(channels: Iterable[Channel]) -> list[str]:
    """The range of the rates in the largest unit that leaves no zero before the point."""
    rates = [channel.rate for channel in channels if channel.rate is not None]
    if not rates:
        return []
    size, unit = next((size, unit) for size, unit in UNITS if min(rates) >= size or size == 1.0)
    return [f"{span(rate / size for rate in rates)} {unit}"]


def span(values: Iterable[float]) -> str:
    """Both ends, "10-100", or "10" when all are the same; three digits."""
    ends = list(values)
    low, high = _short(min(ends)), _short(max(ends))
    return low if low == high else f"{low}\N{EN DASH}{high}"


def _short(value: float) -> str:
    """Three digits, never with an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def compute_in_words(compute: Compute) -> str:
    """For example "modelled compute 40 ms/step, slowdown 1-3x, lognormal jitter"."""
    words = f"modelled compute {_short(1e3 * compute.step)} ms/step"
    if any(factor != 1 for factor in compute.slowdown):
        words += f", slowdown {span(compute.slowdown)}x"
    return words + ("" if compute.jitter.kind == "none" else f", {compute.jitter.kind} jitter")


def tcp_in_words(tcp: Tcp) -> str:
    """For example "cubic, slow start after idle"."""
    return f"{tcp.congestion}, {'' if tcp.slow_start_after_idle else 'no '}slow start after idle"


def seeds_in_words(seeds: Iterable[int]) -> str:
    """For example "seed 1", "seeds 1-3", "seeds 1, 4, 9"."""
    found = sorted(set(seeds))
    if len(found) == 1:
        return f"seed {found[0]}"
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"seeds {found[0]}\N{EN DASH}{found[-1]}"
    return "seeds " + ", ".join(str(seed) for seed in found)


def subtitle(results: Results) -> list[str]:
    """Lines under a figure's title: what was run, how its time came about, and how true a simulated time is.

    Taken from the first run's spec: runs of one experiment share network, workload and engine.
    """
    if not results.specs or results.done.empty:
        return [results.experiment]
    run: RunSpec = next(iter(results.specs.values()))
    load = run.workload
    what = f"{load.data} ({load.partition}), {load.model}, batch {load.batch}, lr {load.lr:g}"
    what += f", momentum {load.momentum:g}" if load.momentum else ""
    lines = [
        f"{results.experiment}: {network_in_words(run.network)}",
        f"{what}, {seeds_in_words(results.done['seed'])}",
        f"{ENGINES.get(run.engine, run.engine)} ({tcp_in_words(run.tcp)}), {compute_in_words(run.compute)}",
    ]
    truth = truth_in_words(results)
    return [f"{lines[0]}; {lines[1]}", lines[2], *([truth] if truth else [])]


def warnings(results: Results) -> list[str]:
    """What the reader of a figure must know about runs that are not in it, or are in it marked."""
    lines = []
    if len(results.lost):
        named = [f"{run.algorithm} seed {run.seed} ({run.state})" for run in results.lost.itertuples()]
        lines.append(f"Not shown: {len(named)} of {len(results.runs)} runs: {_first(named)}")
    marked = [f"{run.algorithm} seed {run.seed}" for run in results.done.itertuples() if run.degraded]
    silent = sorted(set(results.done["algorithm"]) - set(results.metrics["algorithm"]))
    if silent:
        lines.append(f"Without a single evaluated model: {_first(silent)}")
    if marked:
        lines.append(f"Degraded, shown all the same: {_first(marked)}")
    return lines


def _first(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
