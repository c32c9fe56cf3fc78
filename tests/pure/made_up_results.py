"""Result folders made by hand, so that every number in the analysis can be derived on paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from testbed.network.model import Channel, Link, Network, Site
from testbed.record.folder import RunFolder
from testbed.record.tables import write_rows
from testbed.spec.run import AlgorithmChoice, Compute, Horizon, RunSpec, Tcp, Workload

HORIZON = 120.0
TARGET = 0.8


def star(rates: tuple[float, ...] = (10e6, 100e6)) -> Network:
    """One site per rate around a server; round trips 20 ms, 40 ms, ..."""
    names = [f"s{i}" for i in range(len(rates))]
    sites = tuple(Site(name, (f"w{i}",)) for i, name in enumerate(names))
    links = tuple(
        Link(name, "centre", Channel(rate, 0.01 * (i + 1)), Channel(rate, 0.01 * (i + 1)))
        for i, (name, rate) in enumerate(zip(names, rates, strict=True))
    )
    workers = tuple(f"w{i}" for i in range(len(rates)))
    return Network("star", (*sites, Site("centre", ("ps",))), links, workers, "ps")


def run_spec(label: str, seed: int, experiment: str = "demo", network: Network | None = None) -> RunSpec:
    """A complete run: horizon 120 s, target 80 %, evaluated every 2 s."""
    return RunSpec(
        experiment=experiment,
        algorithm=AlgorithmChoice(label, label),
        seed=seed,
        network=network or star(),
        tcp=Tcp(),
        workload=Workload("mnist", "mlp", batch=32, lr=0.1),
        compute=Compute(step=0.04, slowdown=(1.0, 3.0)),
        horizon=Horizon(HORIZON, evaluate_every=2.0, target=TARGET),
    )


@dataclass
class MadeUp:
    """One run. `curve` holds (time, accuracy), `sent` (time, bytes), `spans` (node, phase, start, end).

    `arrivals` are what a probe notes: (sender, time).
    """

    label: str
    seed: int
    curve: list[tuple[float, float]]
    sent: list[tuple[float, int]] = field(default_factory=list)
    spans: list[tuple[str, str, float, float]] = field(default_factory=list)
    arrivals: list[tuple[str, float]] = field(default_factory=list)
    experiment: str = "demo"
    engine: str = "virtual"
    flow_model: str = ""

    def write(self, results: Path, network: Network | None = None) -> RunFolder:
        """Leave what a finished run leaves; versions count 1, 2, ..., with 320 samples each."""
        spec = replace(run_spec(self.label, self.seed, self.experiment, network), engine=self.engine)
        folder = RunFolder.of(results, spec)
        folder.begin(spec, {"flow_model": self.flow_model} if self.flow_model else {})
        for table, rows in self.rows().items():
            write_rows(folder.table(table), table, rows)
        folder.finish()
        return folder

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """All tables' rows."""
        metrics = [
            {"time": t, "node": "ps", "version": v, "samples": 320 * v, "loss": 1.0, "accuracy": a}
            for v, (t, a) in enumerate(self.curve, start=1)
        ]
        messages = [
            {
                "source": "w0",
                "target": "ps",
                "tag": "g",
                "version": v,
                "bytes": b,
                "sent": t,
                "arrived": t + 1,
            }
            for v, (t, b) in enumerate(self.sent)
        ]
        spans = [{"node": n, "phase": p, "start": start, "end": end} for n, p, start, end in self.spans]
        notes = [
            {"time": t, "node": "ps", "name": "arrived", "peer": sender, "value": 0.0} for sender, t in self.arrivals
        ]
        return {"metrics": metrics, "messages": messages, "spans": spans, "notes": notes}


def three_against_three(results: Path) -> None:
    """fedavg reaches 80 % at 20, 22, 24 s, ssgd at 50, 55, 66 s, each over seeds 1 to 3.

    fedavg sends 1 MB at 10 s and 1 MB at 30 s, ssgd 4 MB at each of 10, 40 and 100 s.
    """
    for seed, time in ((1, 22.0), (2, 20.0), (3, 24.0)):
        curve = [(10.0, 0.5), (time, 0.8), (100.0, 0.9 + seed / 100)]
        spans = [("w0", "compute", 0.0, 30.0), ("w0", "recv", 30.0, 45.0), ("w0", "send", 45.0, 50.0)]
        spans.append(("ps", "recv", 0.0, 120.0))
        MadeUp("fedavg", seed, curve, [(10.0, 10**6), (30.0, 10**6)], spans).write(results)
    for seed, time in ((1, 55.0), (2, 50.0), (3, 66.0)):
        curve = [(10.0, 0.4), (40.0, 0.79), (time, 0.81)]
        MadeUp("ssgd", seed, curve, [(t, 4 * 10**6) for t in (10.0, 40.0, 100.0)]).write(results)
