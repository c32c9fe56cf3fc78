"""What is shown while runs go: plain lines without a terminal, a table with one."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from threading import Thread

from rich.console import Console

from testbed.analysis.live import LiveView, plain_line, visible
from testbed.record.progress import Progress

RUN = Progress("fedavg", 1, "training", 24.0, 0.5, 3_400_000, 6.0)


def plain(times: list[float], *updates: Progress) -> list[str]:
    """The lines printed when the updates come at these machine seconds."""
    stream = StringIO()
    clock = iter(times)
    with LiveView(120.0, console=Console(file=stream, width=40), clock=lambda: next(clock)) as view:
        for progress in updates:
            view.update(progress)
    return stream.getvalue().splitlines()


def test_a_plain_line_has_everything() -> None:
    assert plain_line(RUN, 120.0) == (
        "fedavg seed 1: training, 24.0 s (20 %), accuracy 50.0 %, 3.4 MB, 6.0 s of machine, 4.0x"
    )
    failed = Progress("a", 2, "failed", detail="w3 is lost:\n reset")
    assert plain_line(failed, 120.0) == (
        "a seed 2: failed, 0.0 s (0 %), accuracy -, 0.0 MB, 0.0 s of machine, - - w3 is lost: reset"
    )


def test_one_line_per_change_of_state_and_every_five_seconds() -> None:
    updates = [replace(RUN, time=float(i)) for i in range(5)] + [replace(RUN, state="done", time=120.0)]
    lines = plain([0.0, 1.0, 4.9, 5.0, 9.0, 9.1], *updates)
    assert [line.split(", ")[:2] for line in lines] == [
        ["fedavg seed 1: training", "0.0 s (0 %)"],
        ["fedavg seed 1: training", "3.0 s (2 %)"],
        ["fedavg seed 1: done", "120.0 s (100 %)"],
    ]


def test_every_run_has_its_own_five_seconds() -> None:
    assert len(plain([0.0, 1.0, 5.5, 5.6], RUN, replace(RUN, seed=2), replace(RUN, seed=2), RUN)) == 3


def test_brackets_in_a_reason_are_no_markup() -> None:
    assert plain([0.0], replace(RUN, detail="float32[10] [red]"))[0].endswith("- float32[10] [red]")


def test_the_table_on_a_terminal() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100, height=20, color_system=None)
    with LiveView(120.0, total=3, console=console) as view:
        view.update(RUN)
        view.update(replace(RUN, seed=2, state="failed", detail="w3 is lost"))
        screen = Console(file=StringIO(), width=100)
        screen.print(view.render())
    stream = screen.file
    assert isinstance(stream, StringIO)
    text = stream.getvalue()
    for part in (
        "24.0 s (20 %)",
        "50.0 %",
        "3.4",
        "4.0x",
        "0 of 3 runs done, 1 failed",
        "fedavg seed 2: w3 is lost",
    ):
        assert part in text


def test_runs_that_ended_give_up_their_rows_first() -> None:
    runs = [
        replace(RUN, seed=1, state="done"),
        replace(RUN, seed=2, state="failed"),
        replace(RUN, seed=3),
        replace(RUN, seed=4, state="booting"),
    ]
    assert [one.seed for one in visible(runs, 4)] == [1, 2, 3, 4]
    assert [one.seed for one in visible(runs, 3)] == [2, 3, 4]
    assert [one.seed for one in visible(runs, 2)] == [3, 4]


def test_updates_from_many_threads() -> None:
    stream = StringIO()
    with LiveView(120.0, console=Console(file=stream, width=40)) as view:

        def fifty(seed: int) -> None:
            for _ in range(50):
                view.update(replace(RUN, seed=seed))

        threads = [Thread(target=fifty, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(line[:13] for line in stream.getvalue().splitlines()) == [f"fedavg seed {seed}" for seed in range(8)]
