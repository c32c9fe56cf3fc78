"""What a calibration found: `calibration.json` in the folder of a simulated experiment.

results/<experiment>/calibration.json              every time on both engines
results/<experiment>/calibration/<engine>/<probe>/ the probes' own records
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.spec.run import AlgorithmChoice, RunSpec, from_plain, to_plain

FILE = "calibration.json"
PROBES = "calibration"
"""the folder of the probes, beside the algorithms' folders."""


@dataclass(frozen=True)
class Compared:
    """One time on both engines, in seconds; None where it never came."""

    kind: str
    """target, worker or probe."""
    label: str
    """the algorithm's or the probe's."""
    who: str
    """the node; empty for a time to target."""
    count: int
    """steps or messages after which the time was taken; 0 for a time to target."""
    sim: float | None
    virtual: float | None

    @property
    def error(self) -> float | None:
        """Of the simulated time, as a share of the emulated one; None where one of them never came."""
        if self.sim is None or self.virtual is None:
            return None
        if self.sim == self.virtual:
            return 0.0  # also at the very start, of which there is no share
        return self.sim / self.virtual - 1 if self.virtual else float("inf")


@dataclass(frozen=True)
class Calibration:
    """All that was compared with one seed."""

    experiment: str
    """the simulated one."""
    seed: int
    target: float
    """accuracy in 0 to 1."""
    settings: str
    """`settings_digest` of the runs."""
    flow_model: str
    """digest of the simulated network's code."""
    rows: tuple[Compared, ...]

    @property
    def labels(self) -> list[str]:
        """The algorithms that were compared."""
        return list(dict.fromkeys(row.label for row in self.rows if row.kind != "probe"))

    def worst(self, kind: str, labels: Iterable[str] | None = None) -> Compared | None:
        """The row that is off the most, whichever way; one that came on one engine only is off without end."""
        chosen = set(self.labels if labels is None else labels)
        rows = [row for row in self.rows if row.kind == kind and (kind == "probe" or row.label in chosen)]
        rows = [row for row in rows if (row.sim, row.virtual) != (None, None)]
        return max(rows, key=lambda row: float("inf") if row.error is None else abs(row.error), default=None)

    def doubt(self, runs: Iterable[RunSpec], flow_models: Iterable[str]) -> str:
        """Why this does not speak for those runs; empty where it does."""
        if any(settings_digest(run) != self.settings for run in runs):
            return "the calibration was made with other settings"
        if any(model != self.flow_model for model in flow_models):
            return "the calibration was made with another version of the model"
        missing = sorted({run.algorithm.label for run in runs} - set(self.labels))
        return f"the calibration is without {', '.join(missing)}" if missing else ""


def settings_digest(run: RunSpec) -> str:
    """SHA-256 of what all runs of an experiment share, on whichever engine."""
    bare = replace(run, experiment="", algorithm=AlgorithmChoice("", ""), seed=0, engine="")
    return hashlib.sha256(json.dumps(to_plain(bare), sort_keys=True).encode()).hexdigest()


def write_calibration(folder: Path, calibration: Calibration) -> Path:
    """Into the folder of the simulated experiment; the file."""
    path = folder / FILE
    path.write_text(json.dumps(to_plain(calibration), indent=1) + "\n")
    return path


def read_calibration(folder: Path) -> Calibration | None:
    """None where there is none; ValueError where it is no file of this version."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        found = from_plain(Calibration, json.loads(path.read_text()))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is damaged or of another version ({error})") from None
    assert isinstance(found, Calibration)
    return found
