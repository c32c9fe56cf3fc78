"""Where a run's records lie, and whether it is finished.

    results/<experiment>/<label>/seed=<n>/
        spec.yaml          the frozen run
        env.json           versions, kernel, machine
        algorithm.py       the algorithm's source, where it is none of the project's own
        fidelity.json      the network as measured before training
        profile.json       where the machine's seconds went
        metrics.parquet    time, node, version, samples, loss, accuracy
        spans.parquet      node, phase, peer, start, end, bytes
        messages.parquet   source, target, tag, version, bytes, sent, arrived
        links.parquet      time, port, bytes, packets, drops
        notes.parquet      time, node, name, peer, value: what an algorithm noted
        DONE | FAILED      the last word; FAILED holds the reason

Times in all tables are virtual seconds since training began.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from testbed.record.environment import algorithm_digest, flow_model_digest
from testbed.spec.faults import SpecError
from testbed.spec.run import RunSpec
from testbed.spec.spec_yaml import read_spec_yaml, write_spec_yaml


class InUse(Exception):
    """Another command runs this experiment."""


class NoResultsFolder(Exception):
    """Results cannot be written where they should be."""


@contextmanager
def experiment_lock(folder: Path) -> Iterator[None]:
    """Hold an experiment's folder while the body runs, so that two commands do not clear each other's runs.

    InUse when another process holds it; a process that dies holds nothing. NoResultsFolder when the folder
    cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / ".lock").open("w")
    except OSError as error:
        raise NoResultsFolder(f"{folder}: {error.strerror}; take another --results folder") from None
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"{folder} is in use by another command; wait for it, or take another --results") from None
        yield


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @classmethod
    def of(cls, results: Path, run: RunSpec) -> RunFolder:
        """The folder that belongs to `run` below `results`."""
        return cls(results / run.experiment / run.algorithm.label / f"seed={run.seed}")

    @property
    def done(self) -> bool:
        return (self.path / "DONE").exists()

    @property
    def failure(self) -> str | None:
        """Why the run failed, or None."""
        marker = self.path / "FAILED"
        return marker.read_text() if marker.exists() else None

    def table(self, name: str) -> Path:
        """The Parquet file of table `name`."""
        return self.path / f"{name}.parquet"

    @property
    def records(self) -> Path:
        """Where lines of JSON gather while the run goes."""
        return self.path / "records"

    def same_spec(self, run: RunSpec) -> bool:
        """Whether what lies here came from the same run spec; True where nothing lies.

        In which folder an algorithm from outside the project lies is no part of it, since projects are moved
        and cloned; what its file says is compared by `algorithm_digest`.
        """
        spec = self.path / "spec.yaml"
        if not spec.exists():
            return True
        text = spec.read_text()
        if run.algorithm.file:
            try:
                there = read_spec_yaml(text).algorithm.file
            except SpecError:
                return False  # of another version
            run = replace(run, algorithm=replace(run.algorithm, file=there or run.algorithm.file))
        return text == write_spec_yaml(run)

    def algorithm_digest(self) -> str:
        """Digest of the algorithm's file that made these results; empty where none is recorded."""
        return self._environment("algorithm")

    def changed_since(self, run: RunSpec) -> str:
        """Which code has changed since these results were made; empty if none has, or none is known."""
        if self.algorithm_digest() != algorithm_digest(run.algorithm):
            return run.algorithm.file or f"algorithms/{run.algorithm.name}.py"
        if self.flow_model() not in ("", flow_model_digest()):
            return "the model of the network"
        return ""

    def flow_model(self) -> str:
        """Digest of the simulated network's code; empty where none is recorded."""
        return self._environment("flow_model")

    def _environment(self, key: str) -> str:
        path = self.path / "env.json"
        return str(json.loads(path.read_text()).get(key, "")) if path.exists() else ""

    def begin(self, run: RunSpec, environment: dict[str, Any]) -> None:
        """Clear what an unfinished run left and write down what is about to run."""
        source = Path(run.algorithm.file).read_bytes() if run.algorithm.file else None
        if self.path.exists():
            shutil.rmtree(self.path)
        self.records.mkdir(parents=True)
        (self.path / "spec.yaml").write_text(write_spec_yaml(run))
        (self.path / "env.json").write_text(json.dumps(environment, indent=1) + "\n")
        if source is not None:
            (self.path / "algorithm.py").write_bytes(source)

    def finish(self) -> None:
        """The last word of a run that went well."""
        (self.path / "DONE").write_text("")

    def fail(self, reason: str) -> None:
        """The last word of a run that did not."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "FAILED").write_text(reason.rstrip() + "\n")

    def drop_lines(self) -> None:
        """Remove the lines of JSON once they are tables."""
        shutil.rmtree(self.records)
