"""A small experiment file, and a catalogue for it, that tests change in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from annotated_types import Ge, Gt, Le
from hypothesis import settings

from testbed.spec.catalogue import Catalogue, KnownAlgorithm
from testbed.spec.experiment import Experiment, load_experiment
from testbed.spec.faults import SpecError

ROOT = Path(__file__).parents[2]

UNHURRIED = settings(deadline=None)
"""The first quantity waits for pint's import, and a machine may be busy."""


@dataclass(frozen=True)
class Averaging:
    local_steps: Annotated[int, Ge(0)] = 10
    fraction: Annotated[float, Gt(0), Le(1)] = 1.0
    groups: tuple[int, ...] = ()
    patience: float | None = None
    warm: bool = False

    def __post_init__(self) -> None:
        if self.local_steps == 13:
            raise ValueError("13 local steps bring bad luck")


@dataclass(frozen=True)
class Nothing:
    pass


CATALOGUE = Catalogue(
    algorithms={
        "ssgd": KnownAlgorithm(Nothing, ("server",)),
        "fedavg": KnownAlgorithm(Averaging, ("server",)),
        "gossip": KnownAlgorithm(Averaging, ("monitor",)),
    },
    data=("digits", "fashion-mnist"),
    models=("mlp", "softmax", "lenet"),
)

FILE = """\
network:
  preset: star
  workers: 2
  links: {rate: 10 Mbit/s, delay: 10 ms}
workload: {data: digits, model: mlp, batch: 32, lr: 0.1}
compute: {step: 40 ms}
algorithms: [ssgd]
seeds: [1]
horizon: {time: 60 s, evaluate_every: 2 s, target: 80 %}
"""


def load(folder: Path, text: str = FILE) -> Experiment:
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return load_experiment(path, CATALOGUE, [ROOT / "topologies"])


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as refused:
        load(folder, text)
    return [str(fault).removeprefix(f"{folder}/") for fault in refused.value.faults]
