"""The commands. Thin: each reads what it is given, calls what does the work, and says how it went.

Exit codes: 0 all went well, 1 a run failed, 2 the input is wrong and nothing was written, 130 interrupted.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from testbed.record.folder import RunFolder
    from testbed.spec.experiment import Experiment
    from testbed.spec.run import RunSpec

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Distributed training over emulated wide-area networks, on a virtual clock.",
)  # fmt: skip
out, err = Console(), Console(stderr=True)

NETWORKS = Path(__file__).resolve().parents[1] / "topologies"

File = Annotated[Path, typer.Argument(help="An experiment file.", show_default=False)]
ResultsFolder = Annotated[Path, typer.Option("--results", help="Where results are kept.")]


class Refused(Exception):
    """The input is wrong; the message says what and how to mend it."""


@app.command()
def run(
    file: File,
    results: ResultsFolder = Path("results"),
    at_once: Annotated[int | None, typer.Option(min=1, help="Guests side by side; default: one per core.")] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds of this machine that one run may take.")] = 3600,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Train even if the network measures outside its tolerance; marked."),
    ] = False,
) -> None:
    """Run every algorithm and seed of an experiment, then compare them. Finished runs are kept."""
    from testbed.analysis.live import LiveView
    from testbed.engines.virtual.engine import Limits, VirtualEngine
    from testbed.record.folder import experiment_lock

    experiment, runs = _load(file)
    work = _unfinished(runs, results)
    _require_data(experiment)
    kernel = _require_kernel()
    failed = 0
    if work:
        with experiment_lock(results / experiment.name), LiveView(experiment.horizon.time, len(work), out) as view:
            engine = VirtualEngine(
                kernel, view.update, at_once=at_once, limits=Limits(whole=limit), keep_going=keep_going
            )
            try:
                failed = engine.run(work)
            except KeyboardInterrupt:
                err.print("interrupted; finished runs are kept, the same command goes on from here")
                raise typer.Exit(130) from None
    else:
        out.print(f"every run of {experiment.name} is done already", highlight=False)
    _compare(results, experiment.name, [(r.algorithm.label, r.seed) for r in runs])
    if failed:
        raise typer.Exit(1)


@app.command()
def check(file: File) -> None:
    """Read an experiment file and say what it would run."""
    experiment, runs = _load(file)
    labels = ", ".join(dict.fromkeys(r.algorithm.label for r in runs))
    out.print(
        f"{file}: {len(runs)} runs of {labels} over {len(experiment.seeds)} seeds, "
        f"{len(runs[0].network.workers)} workers, {experiment.horizon.time:g} virtual seconds each",
        highlight=False,
    )


@app.command()
def report(file: File, results: ResultsFolder = Path("results")) -> None:
    """Compare the runs of an experiment that are done, without running any."""
    experiment, runs = _load(file)
    if not (results / experiment.name).is_dir():
        raise Refused(f"{results / experiment.name} does not exist; run it first: testbed run {file}")
    _unfinished(runs, results)  # refuses results of another file
    _compare(results, experiment.name, [(r.algorithm.label, r.seed) for r in runs])


@app.command()
def mininet(file: File) -> None:
    """Open Mininet's own prompt on an experiment's network, inside a guest.

    Give programs an end (ping -c 2): the clock jumps from packet to packet, so ^C finds no moment to be heard.
    """
    from testbed.engines.virtual.prompt import open_prompt

    if not sys.stdin.isatty():
        raise Refused("the prompt needs a terminal; this input is none")
    _, runs = _load(file)
    kernel = _require_kernel()
    raise typer.Exit(open_prompt(kernel, runs[0]))


def _load(file: Path) -> tuple[Experiment, list[RunSpec]]:
    from testbed.runtime.finder import catalogue
    from testbed.spec.expand import expand
    from testbed.spec.experiment import load_experiment

    experiment = load_experiment(file, catalogue(), [NETWORKS])
    return experiment, expand(experiment)


def _unfinished(runs: Sequence[RunSpec], results: Path) -> list[tuple[RunSpec, RunFolder]]:
    """The runs that are still to do. Refused when other runs lie where these belong."""
    from testbed.record.environment import algorithm_digest
    from testbed.record.folder import RunFolder

    places = [(run, RunFolder.of(results, run)) for run in runs]
    other = [folder.path for run, folder in places if folder.done and not folder.same_spec(run)]
    if other:
        raise Refused(
            f"{other[0]} holds a finished run of another experiment file ({len(other)} in all); "
            "give this experiment another name, or another --results folder, or remove the old results"
        )
    for run, folder in places:
        if folder.done and folder.algorithm_digest() != algorithm_digest(run.algorithm.name):
            err.print(
                f"{folder.path}: algorithms/{run.algorithm.name}.py has changed since this run; "
                "remove the folder to run it again",
                markup=False, highlight=False,
            )  # fmt: skip
    return [(run, folder) for run, folder in places if not folder.done]


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
    for lost in found.lost.itertuples():
        err.print(f"{lost.algorithm} seed {lost.seed}: {lost.state}: {lost.reason}", markup=False, highlight=False)
    if not len(found.done):
        return
    summary = summarise(found)
    out.print(table(summary))
    out.print(answer(summary), markup=False, highlight=False)
    for path in draw(found, results / name):
        out.print(str(path), markup=False, highlight=False)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")


def main() -> None:
    """The `testbed` command."""
    from testbed.engines.virtual.folders import NoPlaceForGuests
    from testbed.engines.virtual.kernel.recipe import KernelError
    from testbed.record.folder import InUse, NoResultsFolder
    from testbed.runtime.finder import NoSuchAlgorithm
    from testbed.spec.faults import SpecError

    signal.signal(signal.SIGTERM, _terminate)  # so that guests are ended and runs get their last word
    try:
        app()
    except (SpecError, Refused, InUse, NoResultsFolder, KernelError, NoPlaceForGuests, NoSuchAlgorithm) as fault:
        print(fault, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
