"""What is said of records once they are there: the comparison of algorithms, and that of the two engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from testbed.record.results import Results
    from testbed.spec.experiment import Experiment

out, err = Console(), Console(stderr=True)


def compare(results: Path, name: str, expected: list[tuple[str, int]]) -> None:
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


def show_calibration(results: Path, experiment: Experiment, virtual: str) -> None:
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
        load_results(folder / PROBES, engine) for engine in ("sim", "virtual") if (folder / PROBES / engine).is_dir()
    ]
    _name_the_lost(*own, *small)
    if (own[0].done["seed"] != experiment.seeds[0]).all():
        return  # why is said above
    calibration = calibrated(own, small, experiment.seeds[0])
    path = write_calibration(folder, calibration)
    out.print(calibration_table(calibration))
    found = load_results(results, experiment.name, runs)
    out.print(f"{truth_in_words(found)}.", markup=False, highlight=False)
    for written in [path, *(draw(found, folder) if len(found.done) else [])]:
        out.print(str(written), markup=False, highlight=False)
