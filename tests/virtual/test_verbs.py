"""Every verb of a node on both engines: over TCP in a guest, and on the flow model."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd

from testbed.engines.sim.engine import SimEngine
from testbed.record.folder import RunFolder
from testbed.spec.run import AlgorithmChoice, Failure, Horizon, RunSpec
from tests.virtual.small import carry_out, small

FILE = Path(__file__).with_name("every_verb.py")


def the_run(engine: str) -> RunSpec:
    run = small(engine=engine, failures=(Failure("w3", 12.0),), horizon=Horizon(20, 5, 0.8))
    return dataclasses.replace(run, algorithm=AlgorithmChoice("every_verb", engine, {}, str(FILE)))


def done(folder: RunFolder) -> list[str]:
    assert folder.failure is None, folder.failure
    notes = pd.read_parquet(folder.table("notes"))
    return sorted(notes[notes["name"] == "done"]["node"])


def test_over_tcp(kernel: Path, tmp_path: Path) -> None:
    (folder,), _ = carry_out(kernel, tmp_path, [the_run("virtual")])
    assert done(folder) == ["w1", "w2", "w3"]


def test_on_the_flow_model(tmp_path: Path) -> None:
    run = the_run("sim")
    folder = RunFolder.of(tmp_path, run)
    SimEngine(lambda progress: None).run([(run, folder)])
    assert done(folder) == ["w1", "w2", "w3"]
