"""The commands. Thin: each reads what it is given, calls what does the work, and says how it went.

Exit codes: 0 all went well, 1 a run failed, 2 the input is wrong and nothing was written, 130 interrupted.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from testbed.record.folder import RunFolder
    from testbed.record.progress import Progress
    from testbed.record.results import Results
    from testbed.spec.experiment import Experiment
    from testbed.spec.run import RunSpec

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Distributed training over emulated wide-area networks, on a virtual clock.",
)  # fmt: skip
new = typer.Typer(no_args_is_help=True, help="Write files to start from.")
app.add_typer(new, name="new")
out, err = Console(), Console(stderr=True)

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


class Refused(Exception):
    """The input is wrong; the message says what and how to mend it."""


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
    work = _unfinished(runs, results)
    _require_data(experiment)
    kernel = None if experiment.engine == Engine.sim else _require_kernel()
    failed = 0
    if work:
        with experiment_lock(results / experiment.name):
            failed = _watched(work, kernel, at_once, limit, keep_going)
    else:
        out.print(f"every run of {experiment.name} is done already", highlight=False)
    _compare(results, experiment.name, [(r.algorithm.label, r.seed) for r in runs])
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
    _unfinished(runs, results)  # refuses results of another file
    _compare(results, experiment.name, [(r.algorithm.label, r.seed) for r in runs])


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
    failed = 0
    with ExitStack() as locks:
        batches = []
        for engine, (named, runs) in plans.items():
            chosen = first_seed(runs)
            place = results / experiment.name / PROBES
            batches.append((engine, _unfinished(chosen, results, again=True)))
            batches.append((engine, _unfinished(probes(chosen[0], size), place, again=True)))
            locks.enter_context(experiment_lock(results / named.name))
        for engine, work in batches:
            program = kernel if engine == Engine.virtual else None
            failed += _watched(work, program, at_once, limit)
    _show_calibration(results, experiment, plans[Engine.virtual][0].name)
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


def _watched(
    work: Sequence[tuple[RunSpec, RunFolder]],
    kernel: Path | None,
    at_once: int | None,
    limit: float,
    keep_going: bool = False,
) -> int:
    """Run everything under the reader's eyes; how many runs failed."""
    from testbed.analysis.live import LiveView

    if not work:
        return 0
    longest = max(run.horizon.time for run, _ in work)
    with LiveView(longest, len(work), out) as view:
        try:
            return _carry_out(work, kernel, view.update, at_once, limit, keep_going)
        except KeyboardInterrupt:
            err.print("interrupted; finished runs are kept, the same command goes on from here")
            raise typer.Exit(130) from None


def _carry_out(
    work: Sequence[tuple[RunSpec, RunFolder]],
    kernel: Path | None,
    show: Callable[[Progress], None],
    at_once: int | None,
    limit: float,
    keep_going: bool,
) -> int:
    """Run everything, without a kernel on the engine that needs none; how many runs failed."""
    if kernel is None:
        from testbed.engines.sim.engine import SimEngine

        return SimEngine(show, at_once=at_once, limit=limit).run(work)
    from testbed.engines.virtual.engine import Limits, VirtualEngine

    return VirtualEngine(kernel, show, at_once=at_once, limits=Limits(whole=limit), keep_going=keep_going).run(work)


def _unfinished(runs: Sequence[RunSpec], results: Path, again: bool = False) -> list[tuple[RunSpec, RunFolder]]:
    """The runs that are still to do; with `again` those too that code which has changed since has made.

    Refused when other runs lie where these belong.
    """
    from testbed.record.folder import RunFolder

    places = [(run, RunFolder.of(results, run)) for run in runs]
    other = [folder.path for run, folder in places if folder.done and not folder.same_spec(run)]
    if other:
        raise Refused(
            f"{other[0]} holds a finished run of another experiment file ({len(other)} in all); "
            "give this experiment another name, or another --results folder, or remove the old results"
        )
    unfinished = []
    for run, folder in places:
        changed = folder.changed_since(run) if folder.done else ""
        if not folder.done or (changed and again):
            unfinished.append((run, folder))
        elif changed:
            text = f"{folder.path}: {changed} has changed since this run; remove the folder to run it again"
            err.print(text, markup=False, highlight=False)
    return unfinished


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


def _compare(results: Path, name: str, expected: list[tuple[str, int]]) -> None:
    """Table, answer and figure."""
    from testbed.analysis.answer import answer
    from testbed.analysis.comparison import table
    from testbed.analysis.figure import draw
    from testbed.analysis.summary import summarise
    from testbed.record import load_results

    found = load_results(results, name, expected)
    _name_the_lost(found)
    if not len(found.done):
        return
    summary = summarise(found)
    out.print(table(summary))
    out.print(answer(summary), markup=False, highlight=False)
    for path in draw(found, results / name):
        out.print(str(path), markup=False, highlight=False)


def _name_the_lost(*every: Results) -> None:
    for found in every:
        for lost in found.lost.itertuples():
            text = f"{lost.algorithm} seed {lost.seed}: {lost.state}: {lost.reason}"
            err.print(text, markup=False, highlight=False)


def _show_calibration(results: Path, experiment: Experiment, virtual: str) -> None:
    """Compare the two engines' records, keep what comes of it, and draw the simulated figure anew."""
    from testbed.analysis.calibration import calibrated, calibration_table
    from testbed.analysis.figure import draw
    from testbed.analysis.simulated import truth_in_words
    from testbed.record import load_results
    from testbed.record.calibration import PROBES, write_calibration

    folder = results / experiment.name
    runs = [(choice.label, experiment.seeds[0]) for choice in experiment.algorithms]
    own = [load_results(results, name, runs) for name in (experiment.name, virtual)]
    small = [
        load_results(folder / PROBES, engine)
        for engine in (Engine.sim, Engine.virtual)
        if (folder / PROBES / engine).is_dir()
    ]
    _name_the_lost(*own, *small)
    calibration = calibrated(own, small, experiment.seeds[0])
    path = write_calibration(folder, calibration)
    out.print(calibration_table(calibration))
    found = load_results(results, experiment.name, runs)
    out.print(f"{truth_in_words(found)}.", markup=False, highlight=False)
    for written in [path, *(draw(found, folder) if len(found.done) else [])]:
        out.print(str(written), markup=False, highlight=False)


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
