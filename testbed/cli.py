"""The commands. Thin: each reads what it is given, calls what does the work, and says how it went.

Exit codes: 0 all went well, 1 a run failed, 2 the input is wrong and nothing was written, 130 interrupted.
"""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from testbed.comparing import compare, show_calibration
from testbed.finishing import Refused, unfinished, watched

if TYPE_CHECKING:
    from testbed.spec.experiment import Experiment
    from testbed.spec.run import RunSpec

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Distributed training over emulated wide-area networks, on a virtual clock.",
)  # fmt: skip
new = typer.Typer(no_args_is_help=True, help="Write files to start from.")
app.add_typer(new, name="new")
out = Console()

NETWORKS = Path(__file__).resolve().parents[1] / "topologies"

File = Annotated[Path, typer.Argument(help="An experiment file.", show_default=False)]
ResultsFolder = Annotated[Path, typer.Option("--results", help="Where results are kept.")]


class Engine(StrEnum):
    """What carries runs out: real packets in a guest, or a model of them in this process."""

    virtual = "virtual"
    sim = "sim"


def _engine(word: str) -> Engine:
    from testbed.spec.faults import unknown

    if word not in list(Engine):
        raise typer.BadParameter(unknown(word, "an engine", Engine))
    return Engine(word)


OtherEngine = Annotated[
    Engine | None,
    typer.Option(
        "--engine", parser=_engine, metavar=f"[{'|'.join(Engine)}]",
        help="Instead of the file's engine; results then lie in <experiment>-<engine>.",
    ),
]  # fmt: skip


@app.command()
def run(
    file: File,
    results: ResultsFolder = Path("results"),
    engine: OtherEngine = None,
    at_once: Annotated[int | None, typer.Option(min=1, help="Runs side by side; default: one per core.")] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds of this machine that one run may take.")] = 3600,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Train even if the network measures outside its tolerance; marked."),
    ] = False,
) -> None:
    """Run every algorithm and seed of an experiment, then compare them. Finished runs are kept."""
    from testbed.record.folder import experiment_lock

    experiment, runs = _load(file, engine)
    work = unfinished(runs, results)
    _require_data(experiment)
    kernel = None if experiment.engine == Engine.sim else _require_kernel()
    failed = 0
    if work:
        with experiment_lock(results / experiment.name):
            failed = watched(work, kernel, at_once, limit, keep_going)
    else:
        out.print(f"every run of {experiment.name} is done already", highlight=False)
    compare(results, experiment.name, [(r.algorithm.label, r.seed) for r in runs])
    if failed:
        raise typer.Exit(1)


@app.command()
def check(file: File, engine: OtherEngine = None) -> None:
    """Read an experiment file and say what it would run."""
    experiment, runs = _load(file, engine)
    labels = ", ".join(dict.fromkeys(r.algorithm.label for r in runs))
    out.print(
        f"{file}: {len(runs)} runs of {labels} over {len(experiment.seeds)} seeds, "
        f"{len(runs[0].network.workers)} workers, {experiment.horizon.time:g} virtual seconds each, "
        f"on the {experiment.engine} engine",
        highlight=False,
    )


@app.command()
def report(file: File, results: ResultsFolder = Path("results"), engine: OtherEngine = None) -> None:
    """Compare the runs of an experiment that are done, without running any."""
    experiment, runs = _load(file, engine)
    if not (results / experiment.name).is_dir():
        command = f"testbed run {file}" + (f" --engine {engine}" if engine else "")
        raise Refused(f"{results / experiment.name} does not exist; run it first: {command}")
    unfinished(runs, results)  # refuses results of another file
    compare(results, experiment.name, [(r.algorithm.label, r.seed) for r in runs])


@app.command()
def calibrate(
    file: File,
    results: ResultsFolder = Path("results"),
    at_once: Annotated[int | None, typer.Option(min=1, help="Runs side by side; default: one per core.")] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds of this machine that one run may take.")] = 3600,
) -> None:
    """Say how far the sim engine is off: an experiment's first seed, and probes, on both engines."""
    from testbed.calibration.plan import first_seed, probes
    from testbed.record.calibration import PROBES
    from testbed.record.folder import experiment_lock
    from testbed.workload.models import tensors

    plans = {engine: _load(file, engine) for engine in Engine}
    experiment = plans[Engine.sim][0]
    _require_data(experiment)
    kernel = _require_kernel()
    size = 4 * tensors(experiment.workload.model, experiment.workload.data)[-1].stop
    batches, failed = [], 0
    for engine, (_, runs) in plans.items():
        chosen = first_seed(runs)
        place = results / experiment.name / PROBES
        batches.append((engine, unfinished(chosen, results, again=True)))
        batches.append((engine, unfinished(probes(chosen[0], size), place, again=True)))
    with ExitStack() as locks:  # which make folders, so nothing may be refused any more
        for named, _ in plans.values():
            locks.enter_context(experiment_lock(results / named.name))
        for engine, work in batches:
            program = kernel if engine == Engine.virtual else None
            failed += watched(work, program, at_once, limit)
    show_calibration(results, experiment, plans[Engine.virtual][0].name)
    if failed:
        raise typer.Exit(1)


@app.command()
def mininet(file: File) -> None:
    """Open Mininet's own prompt on an experiment's network, inside a guest.

    Give programs an end (ping -c 2): the clock jumps from packet to packet, so ^C finds no moment to be heard.
    """
    from testbed.engines.virtual.prompt import open_prompt

    if not sys.stdin.isatty():
        raise Refused("the prompt needs a terminal; this input is none")
    _, runs = _load(file, None)
    kernel = _require_kernel()
    raise typer.Exit(open_prompt(kernel, runs[0]))


@app.command()
def algorithms(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Algorithms to show in full, or files (./my_idea.py) to list too.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """List the algorithms and their hyper-parameters."""
    from testbed.listing import described, in_full, json_of, listed, show
    from testbed.spec.catalogue import is_path

    wanted = names or []
    found = described(wanted)
    if as_json:
        print(json_of(found))
    else:
        show(listed(found) if all(map(is_path, wanted)) else in_full(found), out)


@new.command("algorithm")
def new_algorithm(
    name: Annotated[str, typer.Argument(help="Its name, like my_idea.", show_default=False)],
    folder: Annotated[
        Path | None, typer.Option(help="Where; default: algorithms/ inside the project, else here.")
    ] = None,
) -> None:
    """Write an algorithm that works, with comments, and its test."""
    from testbed.starting import start_algorithm

    started = start_algorithm(name, Path.cwd(), folder)
    for line in started.advice():
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _load(file: Path, engine: Engine | None) -> tuple[Experiment, list[RunSpec]]:
    from testbed.runtime.finder import catalogue
    from testbed.spec.expand import expand, with_engine
    from testbed.spec.experiment import load_experiment

    loaded = load_experiment(file, catalogue(), [NETWORKS])
    experiment = with_engine(loaded, None if engine is None else engine.value)
    return experiment, expand(experiment)


def _require_data(experiment: Experiment) -> None:
    from testbed.workload.datasets import DATASETS

    missing = DATASETS[experiment.workload.data].missing()
    if missing:
        raise Refused(missing)


def _require_kernel() -> Path:
    from testbed.engines.virtual.kernel.build import find_kernel

    kernel = find_kernel()
    if kernel is None:
        raise Refused("the guest kernel is not built yet; build it with: make setup")
    return kernel


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")


def main() -> None:
    """The `testbed` command."""
    from testbed.engines.virtual.folders import NoPlaceForGuests
    from testbed.engines.virtual.kernel.recipe import KernelError
    from testbed.record.folder import InUse, NoResultsFolder
    from testbed.runtime.finder import NoSuchAlgorithm
    from testbed.spec.faults import SpecError
    from testbed.starting import CannotStart

    signal.signal(signal.SIGTERM, _terminate)  # so that guests are ended and runs get their last word
    try:
        app()
    except (
        SpecError, Refused, InUse, NoResultsFolder, KernelError, NoPlaceForGuests, NoSuchAlgorithm, CannotStart
    ) as fault:  # fmt: skip
        print(fault, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
