"""How many workers the sim engine carries: seconds, events and memory at 10, 100 and 1,000 of them.

    taskset -c 0 python benchmarks/scale.py [--workers 10 100 1000] [--algorithm fedavg gossip]

FedAvg for 100 rounds, and an asynchronous gossip in which each worker takes 100 steps: a gradient, then the
mean with a random peer's newest model. Softmax on Fashion-MNIST, mini-batches of 8, a star of equal links.
Each row is a process of its own. Loading torch and the data is in its memory, not in its seconds; nothing is
evaluated or written. Machines differ and are noisy: compare ratios, and numbers of one call with each other.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.api import Algorithm, Node, NoHyper, weighted_mean
from testbed.compute.arithmetic import hold_arithmetic
from testbed.network.model import Channel
from testbed.network.presets import star
from testbed.spec.run import AlgorithmChoice, Compute, Horizon, Jitter, RunSpec, Tcp, Workload

ROUNDS = 100
ENOUGH = 1e6
"""virtual seconds in which the slowest run has long ended; once all lives have, the clock jumps there at once."""


class FedAvg(Algorithm[NoHyper]):
    """As in `algorithms/`, with one local step, but it stops."""

    roles = ("server",)

    async def server(self, node: Node) -> None:
        model = node.initial_model()
        for version in range(ROUNDS):
            await node.broadcast(node.workers, "model", model, version=version)
            trained = await node.gather("trained", node.workers, version=version)
            model = weighted_mean([m.vector for m in trained], [m.meta["samples"] for m in trained])
            node.snapshot(model, version + 1)

    async def worker(self, node: Node) -> None:
        for version in range(ROUNDS):
            pulled = await node.recv("model", node.server, version=version)
            trained = await node.train(pulled.vector, 1)
            await node.send(node.server, "trained", trained, version=version, meta={"samples": node.samples})


class Gossip(Algorithm[NoHyper]):
    """Nobody waits for anybody but for the answer of the peer that was asked."""

    async def worker(self, node: Node) -> None:
        model = node.initial_model()
        node.publish(model, 0)
        for step in range(ROUNDS):
            gradient = await node.gradient(model)
            model -= node.lr * gradient.vector
            node.publish(model, step + 1)
            pulled = await node.pull(node.peers[int(node.rng.integers(len(node.peers)))])
            model = weighted_mean([model, pulled.vector])


ALGORITHMS: dict[str, type[Algorithm[Any]]] = {"fedavg": FedAvg, "gossip": Gossip}


@dataclass(frozen=True)
class Measured:
    """One run."""

    seconds: float
    """of this machine."""
    events: int
    peak: int
    """bytes of memory, with torch and the data."""


def measure(name: str, workers: int) -> Measured:
    """Simulate once in this process, which must be a fresh one."""
    hold_arithmetic()
    from testbed.engines.sim.simulate import simulate
    from testbed.workload.objective import Objective

    channel = Channel(20e6, 0.010)
    run = RunSpec(
        "scale", AlgorithmChoice(name, name), 1, star([(channel, channel)] * workers), Tcp(),
        Workload("fashion-mnist", "softmax", batch=8, lr=0.01), Compute(0.020, jitter=Jitter("lognormal", 0.1)),
        Horizon(ENOUGH, evaluate_every=1.0, target=0.8), engine="sim",
    )  # fmt: skip
    objective = Objective(run.workload, workers, run.seed)
    began = time.perf_counter()
    left = simulate(run, lambda: ALGORITHMS[name](NoHyper()), objective, lambda snapshot: None)
    seconds = time.perf_counter() - began
    refuse_less_than_all(left.rows, run.network.workers)
    return Measured(seconds, left.events, _peak())


def refuse_less_than_all(rows: dict[str, list[dict[str, Any]]], workers: tuple[str, ...]) -> None:
    """AssertionError unless each worker took its steps, and each step's message and its answer arrived."""
    steps = Counter(span["node"] for span in rows["spans"] if span["phase"] == "compute")
    assert steps == dict.fromkeys(workers, ROUNDS), steps
    assert len(rows["messages"]) == 2 * ROUNDS * len(workers), len(rows["messages"])


def _peak() -> int:
    """The most memory that this process has had. Linux's getrusage would count the parent's with it."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status["VmHWM"].split()[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Seconds, events and memory of the sim engine by number of workers.")
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000], metavar="N", help="2 or more each")
    parser.add_argument("--algorithm", nargs="+", choices=sorted(ALGORITHMS), default=sorted(ALGORITHMS))
    asked = parser.parse_args()
    if min(asked.workers) < 2:
        parser.error("a gossip needs 2 workers or more")
    for name in asked.algorithm:
        print(f"{name:8} {'seconds':>8} {'events':>9} {'events/s':>9} {'peak MB':>8}  {'x the row before':>16}")
        before = 0.0
        for workers in asked.workers:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
                found = fresh.submit(measure, name, workers).result()
            times = f"{found.seconds / before:16.1f}" if before else " " * 16
            print(
                f"{workers:8,} {found.seconds:8.2f} {found.events:9,} {found.events / found.seconds:9,.0f} "
                f"{found.peak / 1e6:8.0f}  {times}".rstrip(), flush=True,
            )  # fmt: skip
            before = found.seconds


if __name__ == "__main__":
    main()
