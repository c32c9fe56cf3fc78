"""The experiment file: what may stand in it, and reading it.

    experiment = load_experiment(Path("experiments/quickstart.yaml"), catalogue, [Path("topologies")])

The classes below are the file's reference: a field is a key. Quantities carry units in the file and are
bit/s, seconds, bytes and shares of one here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, ValidationError, ValidationInfo, field_validator, model_validator

from testbed.spec.catalogue import Catalogue, Context
from testbed.spec.failures import Failures, unfit
from testbed.spec.faults import (
    Fault,
    Place,
    SpecError,
    faults_of,
    nearest,
    refusal,
    refusals,
    refuse_if_any,
    shown,
    unknown,
)
from testbed.spec.hyper import LABEL, LABEL_RULE, choices
from testbed.spec.located import Document, read
from testbed.spec.run import AlgorithmChoice, FlowModel, Jitter
from testbed.spec.section import Section
from testbed.spec.topology import UP_DOWN, Topology, topology
from testbed.spec.units import Duration, Percent

MOST_SEEDS = 10_000
_SEED_RULE = 'write whole numbers from 0, like "[1, 2]" or "1..3".'
_RANGE = re.compile(r"(\d{1,18})\s*\.\.\s*(\d{1,18})")


class WorkloadSection(Section):
    """What is learnt."""

    data: Annotated[str, Field(examples=["fashion-mnist"])]
    model: Annotated[str, Field(examples=["mlp"])]
    batch: Annotated[int, Field(ge=1, examples=["32"])]
    """samples in a mini-batch."""
    lr: Annotated[float, Field(gt=0, examples=["0.1"])]
    momentum: Annotated[float, Field(ge=0, lt=1, examples=["0.9"])] = 0.0
    weight_decay: Annotated[float, Field(ge=0, examples=["0.0001"])] = 0.0
    partition: Annotated[str, Field(examples=["iid"])] = "iid"

    @field_validator("data", "model", "partition")
    @classmethod
    def _is_known(cls, name: str, info: ValidationInfo) -> str:
        catalogue = Context.of(info).catalogue
        kinds = {
            "data": ("a data set", catalogue.data),
            "model": ("a model", catalogue.models),
            "partition": ("a partition", catalogue.partitions),
        }
        what, known = kinds[str(info.field_name)]
        if name not in known:
            raise ValueError(unknown(name, what, known))
        return name


class _JitterSection(Section):
    lognormal: Annotated[float, Field(ge=0, examples=["0.1"])]


def _jitter(value: Any) -> Jitter:
    if value == "none":
        return Jitter()
    if isinstance(value, str):
        raise ValueError(f'{shown(value)} is not a jitter; write "none" or "{{lognormal: 0.1}}".')
    return Jitter("lognormal", _JitterSection.model_validate(value).lognormal)


def _slowdown(value: Any) -> float | tuple[float, ...] | dict[str, float]:
    """One factor for all workers, one each in rank order, or those of the named workers."""
    if isinstance(value, dict):
        entries: Iterable[tuple[Place, Any]] = (((name,), factor) for name, factor in value.items())
    elif isinstance(value, list):
        entries = (((rank,), factor) for rank, factor in enumerate(value))
    else:
        entries = [((), value)]
    findings = [(place, _factor_fault(factor)) for place, factor in entries]
    if any(message for _, message in findings):
        raise refusals((place, message) for place, message in findings if message)
    if isinstance(value, dict):
        return {name: float(factor) for name, factor in value.items()}
    return tuple(float(factor) for factor in value) if isinstance(value, list) else float(value)


def _factor_fault(factor: Any) -> str:
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        return f"{shown(factor)} is not a factor; write a number, like 2 for half the speed."
    if not 0 < factor < float("inf"):
        return f"{factor} is not a factor; write a number above 0, like 2 for half the speed."
    return ""


class ComputeSection(Section):
    """How long a mini-batch takes."""

    step: Annotated[Duration, Field(gt=0, examples=["40 ms"])]
    """of one mini-batch gradient on a worker of speed 1."""
    slowdown: Annotated[
        float | tuple[float, ...] | dict[str, float], PlainValidator(_slowdown), Field(examples=["1"])
    ] = 1.0
    jitter: Annotated[Jitter, PlainValidator(_jitter), Field(examples=["{lognormal: 0.1}"])] = Jitter()

    def factors(self, workers: tuple[str, ...]) -> tuple[float, ...]:
        """The slowdown of each worker in rank order; a pydantic refusal when it does not fit them."""
        if isinstance(self.slowdown, float):
            return (self.slowdown,) * len(workers)
        if isinstance(self.slowdown, tuple):
            if len(self.slowdown) != len(workers):
                told = f"{len(self.slowdown)} values for {len(workers)} workers"
                raise refusal(f'{told}; write one for each, or "{{w3: 2}}" for the slow ones.', "slowdown")
            return self.slowdown
        strangers = [name for name in self.slowdown if name not in workers]
        if strangers:
            raise refusals((("slowdown", name), unknown(name, "a worker", workers)) for name in strangers)
        return tuple(self.slowdown.get(name, 1.0) for name in workers)


class HorizonSection(Section):
    """When a run ends and how closely it is watched."""

    time: Annotated[Duration, Field(gt=0, examples=["120 s"])]
    evaluate_every: Annotated[Duration, Field(gt=0, examples=["2 s"])]
    target: Annotated[Percent, Field(gt=0, examples=["80 %"])]
    """test accuracy that the comparison asks for."""

    @field_validator("evaluate_every")
    @classmethod
    def _within_the_run(cls, every: float, info: ValidationInfo) -> float:
        time = info.data.get("time")
        if time is not None and every > time:
            raise ValueError(f"{every:g} s is longer than the run; write {time:g} s or less.")
        return every


def _seeds(value: Any) -> tuple[int, ...]:
    """A list of seeds, one seed, or a range `1..3` with both ends in it."""
    if isinstance(value, str) and (match := _RANGE.fullmatch(value.strip())):
        first, last = int(match[1]), int(match[2])
        if not 0 <= last - first < MOST_SEEDS:
            raise ValueError(f'{shown(value)} is no range of 1 to {MOST_SEEDS} seeds; write it like "1..3".')
        return tuple(range(first, last + 1))
    seeds = value if isinstance(value, list) else [value]
    findings: list[tuple[Place, str]] = []
    for number, seed in enumerate(seeds):
        place: Place = (number,) if isinstance(value, list) else ()
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            findings.append((place, f"{shown(seed)} is not a seed; {_SEED_RULE}"))
        elif seed in seeds[:number]:
            findings.append((place, f"seed {seed} stands here twice; keep one."))
    if findings or not seeds:
        raise refusals(findings or [((), f"holds no seed; {_SEED_RULE}")])
    return tuple(seeds)


def _topology(value: Any, info: ValidationInfo) -> Topology:
    return topology(value, Context.of(info).networks)


def _choices(value: Any, info: ValidationInfo) -> tuple[AlgorithmChoice, ...]:
    return choices(value, Context.of(info))


class SimSection(Section):
    """What the `sim` engine takes into account of the network; other engines pass it over."""

    slow_start: Annotated[bool, Field(examples=["false"])] = True

    def flow_model(self) -> FlowModel:
        """For a run."""
        return FlowModel(self.slow_start)


class Experiment(Section):
    """A comparison of algorithms on one network and one workload."""

    name: Annotated[str, Field(examples=["quickstart"])]
    network: Annotated[
        Topology,
        PlainValidator(_topology),
        Field(examples=[f"{{preset: star, workers: 8, links: {UP_DOWN}}}"]),
    ]
    workload: Annotated[WorkloadSection, Field(examples=["{data: fashion-mnist, model: mlp, batch: 32, lr: 0.1}"])]
    compute: Annotated[ComputeSection, Field(examples=["{step: 40 ms}"])]
    algorithms: Annotated[tuple[AlgorithmChoice, ...], PlainValidator(_choices), Field(examples=["[ssgd, fedavg]"])]
    seeds: Annotated[tuple[int, ...], PlainValidator(_seeds), Field(examples=["[1, 2, 3]"])] = (1,)
    horizon: Annotated[HorizonSection, Field(examples=["{time: 120 s, evaluate_every: 2 s, target: 80 %}"])]
    failures: Failures = ()
    engine: Annotated[Literal["virtual", "sim"], Field(examples=["virtual"])] = "virtual"
    sim: Annotated[SimSection, Field(examples=["{slow_start: false}"])] = SimSection()

    # What holds between two sections is checked at the later one, so that a fault in a third hides nothing.

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not LABEL.fullmatch(name):
            raise ValueError(f"{shown(name)} cannot name a folder; {LABEL_RULE}")
        return name

    @field_validator("compute")
    @classmethod
    def _fits_the_workers(cls, compute: ComputeSection, info: ValidationInfo) -> ComputeSection:
        if "network" in info.data:
            compute.factors(info.data["network"].network.workers)
        return compute

    @field_validator("algorithms")
    @classmethod
    def _fit_the_network(cls, chosen: tuple[AlgorithmChoice, ...], info: ValidationInfo) -> tuple[AlgorithmChoice, ...]:
        if "network" not in info.data or info.data["network"].network.server is not None:
            return chosen
        catalogue = Context.of(info).catalogue
        findings: list[tuple[Place, str]] = [
            ((number,), f'"{choice.name}" needs a server; add one to the network, like "server: s1".')
            for number, choice in enumerate(chosen)
            if "server" in catalogue.known(choice).roles
        ]
        if findings:
            raise refusals(findings)
        return chosen

    @field_validator("failures")
    @classmethod
    def _fail_within_the_run(cls, failures: Failures, info: ValidationInfo) -> Failures:
        topology, horizon = info.data.get("network"), info.data.get("horizon")
        findings = unfit(failures, topology and topology.network, horizon and horizon.time)
        if findings:
            raise refusals(findings)
        return failures

    @model_validator(mode="after")
    def _no_role_is_misspelt(self, info: ValidationInfo) -> Self:
        """A network may place roles that only other experiments use, so a strange word alone is no fault."""
        catalogue = Context.of(info).catalogue
        every = [*catalogue.algorithms.values(), *(catalogue.known(choice) for choice in self.algorithms)]
        roles = {role for known in every for role in known.roles}
        strange = [p.role for p in self.network.network.roles if p.role not in roles and nearest(p.role, roles)]
        if strange:
            what = "a role of an algorithm"
            raise refusals((("network", "roles", role), unknown(role, what, roles)) for role in strange)
        return self


def load_experiment(path: Path, catalogue: Catalogue, networks: Iterable[Path] = ()) -> Experiment:
    """The experiment in a file. SpecError, and nothing else, holds all that is wrong with it.

    `networks` are folders that are searched, in this order, for a network given by its name.
    """
    document = read(path)
    content = _mapping(document)
    faults = list(document.faults)
    context = Context(catalogue, tuple(networks), path.parent)
    try:
        experiment = Experiment.model_validate({"name": path.stem, **content}, context=context)
    except ValidationError as error:
        faults += faults_of(error, document.file, document.line)
        refuse_if_any(faults, document.file)
        raise
    refuse_if_any(faults, document.file)
    return experiment


def _mapping(document: Document) -> dict[str, Any]:
    """The document's keys; SpecError when it holds something else."""
    if isinstance(document.value, dict):
        return document.value
    what = "is empty" if document.value is None else f"holds {shown(document.value)}, not keys and values"
    keys = ", ".join(name for name, field in Experiment.model_fields.items() if field.is_required() and name != "name")
    raise SpecError([Fault(document.file, document.line(()), (), f"{what}; write the keys {keys}.")])
