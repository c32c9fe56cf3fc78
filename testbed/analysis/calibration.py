"""How far simulated times are off: what two engines recorded of the same runs, side by side.

A worker's time is that of its last step that it took on both engines. The steps themselves take the same time
on both, so what differs is how long the worker waited for the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from testbed.analysis.answer import percent
from testbed.analysis.curves import accuracy_steps
from testbed.analysis.simulated import signed
from testbed.analysis.summary import run_times
from testbed.record.calibration import Calibration, Compared, settings_digest
from testbed.record.folder import RunFolder
from testbed.record.results import Results

TOLERANCE = 0.10
"""share of the emulated time; beyond it a simulated curve should not be trusted for seconds."""


def calibrated(own: Sequence[Results], probes: Sequence[Results], seed: int) -> Calibration:
    """What the runs of an experiment and of the probes say. Each pair holds the simulated ones first.

    ValueError where no simulated run is done.
    """
    sim, virtual = own
    done = sim.done[sim.done["seed"] == seed]
    specs = [sim.specs[label, seed] for label in done["algorithm"]]
    if not specs:
        raise ValueError(f"no run of {sim.experiment} is done with seed {seed}; there is nothing to compare")
    horizon, paths = specs[0].horizon, done["path"]
    rows = compared_runs(sim, virtual, seed, horizon.target, horizon.time)
    rows += compared_probes(probes[0], probes[1], seed) if len(probes) == 2 else []
    models = {RunFolder(Path(path)).flow_model() for path in paths}
    return Calibration(
        sim.experiment, seed, horizon.target, settings_digest(specs[0]), " ".join(sorted(models)), tuple(rows)
    )


def compared_runs(sim: Results, virtual: Results, seed: int, target: float, horizon: float) -> list[Compared]:
    """Times to target and of workers, of every algorithm that is done with this seed on both engines."""
    rows: list[Compared] = []
    for label in sim.algorithms:
        pair = [_of_run(results, label, seed) for results in (sim, virtual)]
        if any(one.done.empty for one in pair):
            continue
        rows.append(Compared("target", label, "", 0, *(_to_target(one, target, horizon) for one in pair)))
        ends = [_ends(one.spans[one.spans["phase"] == "compute"], "node", "end") for one in pair]
        rows += _paired("worker", label, *ends)
    return rows


def compared_probes(sim: Results, virtual: Results, seed: int) -> list[Compared]:
    """When every sender's last message had come that came on both engines; of probes done with this seed on both."""
    rows: list[Compared] = []
    for label in sim.algorithms:
        pair = [_of_run(results, label, seed) for results in (sim, virtual)]
        if any(one.done.empty for one in pair):
            continue
        arrived = [_ends(one.notes[one.notes["name"] == "arrived"], "peer", "time") for one in pair]
        rows += _paired("probe", label, *arrived)
    return rows


def _of_run(results: Results, label: str, seed: int) -> Results:
    """Only one run of all."""

    def mine(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[(frame["algorithm"] == label) & (frame["seed"] == seed)]

    return Results(
        results.experiment, mine(results.runs), mine(results.metrics), mine(results.spans),
        mine(results.messages), mine(results.links), mine(results.notes),
    )  # fmt: skip


def _to_target(one: Results, target: float, horizon: float) -> float | None:
    times = run_times(one, accuracy_steps(one.metrics, horizon), target, horizon)
    return float(times["time"].iloc[0]) if bool(times["reached"].iloc[0]) else None


def _ends(rows: pd.DataFrame, who: str, when: str) -> dict[str, list[float]]:
    """Every node's times in order."""
    return {str(name): sorted(float(t) for t in mine[when]) for name, mine in rows.groupby(who, sort=False)}


def _paired(kind: str, label: str, sim: dict[str, list[float]], virtual: dict[str, list[float]]) -> list[Compared]:
    rows = []
    for who in dict.fromkeys([*virtual, *sim]):
        count = min(len(times.get(who, [])) for times in (sim, virtual))
        if count:
            rows.append(Compared(kind, label, who, count, sim[who][count - 1], virtual[who][count - 1]))
        else:
            rows.append(Compared(kind, label, who, 0, *(times.get(who, [None])[0] for times in (sim, virtual))))
    return rows


def calibration_table(calibration: Calibration) -> Table:
    """Every time on both engines; what is off by more than the tolerance stands out."""
    whole = Table(
        title=Text(f"{calibration.experiment}: the sim engine against the virtual one, seed {calibration.seed}"),
        caption=Text(
            "A worker's time: the end of its last step that it took on both engines. A probe's: the arrival of "
            "the sender's last message."
        ),
        caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0),
    )  # fmt: skip
    for heading in ("", "what"):
        whole.add_column(Text(heading))
    for heading in ("sim", "virtual", "error"):
        whole.add_column(Text(heading), justify="right", no_wrap=True)
    last = ""
    for row in calibration.rows:
        if last not in ("", row.label):
            whole.add_section()
        whole.add_row(*_cells(row, calibration.target, first=row.label != last))
        last = row.label
    return whole


def _cells(row: Compared, target: float, *, first: bool) -> list[Text]:
    if row.kind == "target":
        what = f"time to {percent(target)}"
    else:
        each = "step" if row.kind == "worker" else "message"
        what = f"{row.who}: {row.count} {each}{'s' if row.count != 1 else ''}"
    times = ["never" if time is None else f"{time:.2f} s" for time in (row.sim, row.virtual)]
    return [Text(row.label if first else "", style="bold"), Text(what), *map(Text, times), _error(row)]


def _error(row: Compared) -> Text:
    if row.error is None:
        return Text("-" if row.sim == row.virtual else "!", style="" if row.sim == row.virtual else "bold red")
    return Text(signed(row.error), style="bold red" if abs(row.error) > TOLERANCE else "")
