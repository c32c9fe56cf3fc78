"""Reading an experiment's runs back as pandas frames.

Every frame has the table's columns and, in front, `algorithm` (the label) and `seed`. Frames hold
finished runs only; a run that failed, was killed or never started is a row of `Results.runs` with
its reason, so that no analysis loses it silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from testbed.record.calibration import FILE as CALIBRATION
from testbed.record.calibration import Calibration, read_calibration
from testbed.record.folder import RunFolder
from testbed.record.tables import TABLES, schema
from testbed.spec.run import RunSpec
from testbed.spec.spec_yaml import read_spec_yaml

PREFIX = "seed="
RUN_COLUMNS = ("algorithm", "seed", "state", "reason", "degraded", "path")


@dataclass(frozen=True)
class Results:
    """All runs of one experiment."""

    experiment: str
    runs: pd.DataFrame
    """One row per run: algorithm, seed, state, reason, degraded, path.

    `state` is done, failed, unfinished (a folder without a last word: killed, or still going) or
    missing (other seeds or algorithms have such a run). `reason` says in one line why a run is not
    done (its `FAILED` says more), `degraded` what was wrong with one that is; else both are empty.
    """
    metrics: pd.DataFrame
    spans: pd.DataFrame
    messages: pd.DataFrame
    links: pd.DataFrame
    notes: pd.DataFrame
    specs: dict[tuple[str, int], RunSpec] = field(default_factory=dict)
    """The frozen run per (algorithm, seed), of every folder that holds one."""
    calibration: Calibration | None = None
    """How far the sim engine was off on this experiment, if somebody has found out."""
    calibration_doubt: str = ""
    """Why the calibration does not speak for these runs, or cannot be read; empty where it does."""

    @property
    def algorithms(self) -> list[str]:
        """Every label, in the order of `runs`."""
        return list(dict.fromkeys(self.runs["algorithm"]))

    @property
    def done(self) -> pd.DataFrame:
        """The runs that the frames hold."""
        return self.runs[self.runs["state"] == "done"]

    @property
    def lost(self) -> pd.DataFrame:
        """The runs that the frames do not hold."""
        return self.runs[self.runs["state"] != "done"]


def load_results(results: Path | str, experiment: str, expected: Iterable[tuple[str, int]] = ()) -> Results:
    """Read all runs of `experiment` below the folder `results`.

    `expected` names the (algorithm, seed) pairs that the experiment file asks for; it sets the order
    of algorithms and finds runs of which not even a folder exists. Without it a run is missing when
    its algorithm has other seeds and its seed other algorithms.

    FileNotFoundError when the experiment has no folder, SpecError when a run's spec is not one of this
    version, ValueError when another file is damaged.
    """
    root = Path(results) / experiment
    if not root.is_dir():
        raise FileNotFoundError(f"no results of {experiment!r} in {results}")
    rows: list[dict[str, Any]] = []
    specs: dict[tuple[str, int], RunSpec] = {}
    frames: dict[str, list[pd.DataFrame]] = {table: [] for table in TABLES}
    for label, seed, path in _wanted(root, list(expected)):
        row = {"algorithm": label, "seed": seed, **_state(RunFolder(path)), "path": str(path)}
        rows.append(row)
        if (path / "spec.yaml").exists():
            spec = path / "spec.yaml"
            specs[label, seed] = read_spec_yaml(spec.read_text(), str(spec))
        if row["state"] == "done":
            for table, found in frames.items():
                found.append(_frame(RunFolder(path).table(table), table, label, seed))
    whole = {table: _joined(found, table) for table, found in frames.items()}
    runs = pd.DataFrame(rows, columns=list(RUN_COLUMNS))
    calibration, doubt = _calibration(root, runs, specs)
    return Results(experiment, runs, specs=specs, calibration=calibration, calibration_doubt=doubt, **whole)


def _calibration(
    root: Path, runs: pd.DataFrame, specs: dict[tuple[str, int], RunSpec]
) -> tuple[Calibration | None, str]:
    """What is known, and why it does not hold. A file that cannot be read is no reason not to read the runs."""
    try:
        calibration = read_calibration(root)
    except ValueError:
        return None, f"{CALIBRATION} is damaged or of another version"
    if calibration is None:
        return None, ""
    done = [row for row in runs.to_dict("records") if row["state"] == "done"]
    models = [RunFolder(Path(row["path"])).flow_model() for row in done]
    shown = [specs.get((row["algorithm"], row["seed"])) for row in done]
    return calibration, calibration.doubt([run for run in shown if run is not None], models)


def _wanted(root: Path, expected: list[tuple[str, int]]) -> list[tuple[str, int, Path]]:
    """Label, seed and folder of every run there is or should be; algorithms by name, then seeds."""
    found = {
        (path.parent.name, int(path.name.removeprefix(PREFIX)))
        for path in root.glob(f"*/{PREFIX}*")
        if path.is_dir() and path.name.removeprefix(PREFIX).lstrip("-").isdigit()
    }
    first = list(dict.fromkeys(label for label, _ in expected))
    labels = first + sorted({label for label, _ in found} - set(first))
    every = {(label, seed) for label in labels for _, seed in found}
    grid = found | set(expected) if expected else every
    ordered = sorted(grid, key=lambda run: (labels.index(run[0]), run[1]))
    return [(label, seed, root / label / f"{PREFIX}{seed}") for label, seed in ordered]


def _state(folder: RunFolder) -> dict[str, str]:
    """How a run ended, and what to know about it."""
    state, reason, degraded = "done", "", ""
    if not folder.path.is_dir():
        state, reason = "missing", "there is no such run"
    elif folder.done and not folder.table("metrics").exists():
        state, reason = "failed", "marked as done, but it has no metrics.parquet"
    elif folder.done:
        degraded = _degraded(folder.path / "fidelity.json")
    elif folder.failure is not None:
        state, reason = "failed", (folder.failure.strip() or "no reason given").splitlines()[0]
    else:
        state, reason = "unfinished", "neither DONE nor FAILED: killed, or still running"
    return {"state": state, "reason": reason, "degraded": degraded}


def _degraded(path: Path) -> str:
    """What the fidelity record says under `degraded`: a sentence, a list of them, or true."""
    if not path.exists():
        return ""
    try:
        verdict = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    complaint = verdict.get("degraded") if isinstance(verdict, dict) else None
    if isinstance(complaint, list):
        return "; ".join(str(item) for item in complaint)
    return "" if not complaint else complaint if isinstance(complaint, str) else "marked as degraded"


def _frame(path: Path, table: str, label: str, seed: int) -> pd.DataFrame:
    """One run's table; without rows where the run wrote none."""
    if not path.exists():
        return _labelled(schema(table).empty_table(), label, seed)
    return _labelled(pq.read_table(path, schema=schema(table)), label, seed)


def _labelled(arrow: Any, label: str, seed: int) -> pd.DataFrame:
    frame: pd.DataFrame = arrow.to_pandas()
    frame.insert(0, "algorithm", label)
    frame.insert(1, "seed", seed)
    return frame.astype({"algorithm": "str", "seed": "int64"})


def _joined(found: list[pd.DataFrame], table: str) -> pd.DataFrame:
    """All runs' rows. Frames without rows are left out: they may not decide the types."""
    full = [frame for frame in found if len(frame)]
    if not full:
        return _labelled(schema(table).empty_table(), "", 0)
    return pd.concat(full, ignore_index=True)
