"""The figure: it exists, it repeats byte for byte, and its words are true."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from testbed.analysis.caption import network_in_words, seeds_in_words, subtitle, warnings
from testbed.analysis.figure import draw, spaced, time_to_accuracy
from testbed.network.model import Channel, Network, Site
from testbed.record import load_results
from testbed.record.folder import RunFolder
from tests.pure.made_up_results import MadeUp, run_spec, star, three_against_three


def test_drawn_twice_the_files_have_the_same_bytes(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    results = load_results(tmp_path, "demo")
    first, second = draw(results, tmp_path / "one"), draw(results, tmp_path / "two")
    assert [path.name for path in first] == ["time_to_accuracy.png", "time_to_accuracy.pdf"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes().startswith(b"\x89PNG") and first[1].read_bytes().startswith(b"%PDF")
    assert b"CreationDate" not in first[1].read_bytes()
    assert "matplotlib.pyplot" not in sys.modules


def test_the_panels_show_the_curves_the_target_and_the_names(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    left, right = time_to_accuracy(load_results(tmp_path, "demo")).axes
    words = [text.get_text() for text in left.texts]
    assert {"fedavg", "80 %: 22.0 s", "ssgd", "80 %: 55.0 s", "target 80 %"} <= set(words)
    assert left.get_xlim() == (0.0, 120.0)
    assert left.get_xlabel() == "virtual time (s)" and right.get_xlabel().endswith("(MB)")


def test_without_messages_there_is_one_panel_and_without_models_none(tmp_path: Path) -> None:
    MadeUp("a", 1, []).write(tmp_path)
    with pytest.raises(ValueError, match="no evaluated snapshot"):
        time_to_accuracy(load_results(tmp_path, "demo"))
    MadeUp("b", 1, [(10.0, 0.5)]).write(tmp_path)
    results = load_results(tmp_path, "demo")
    assert len(time_to_accuracy(results).axes) == 1
    assert warnings(results) == ["Without a single evaluated model: a"]


def test_the_subtitle_says_what_was_run(tmp_path: Path) -> None:
    three_against_three(tmp_path)
    RunFolder.of(tmp_path, run_spec("ssgd", 9)).fail("out of memory")
    (tmp_path / "demo/ssgd/seed=2/fidelity.json").write_text('{"degraded": true}')
    results = load_results(tmp_path, "demo")
    assert [line.replace("\N{EN DASH}", "-") for line in subtitle(results)] == [
        "demo: 2 workers, star, 10-100 Mbit/s, RTT 20-40 ms; mnist (iid), mlp, batch 32, lr 0.1, seeds 1-3",
        "virtual time: emulated network, Linux TCP (cubic, slow start after idle), "
        "modelled compute 40 ms/step, slowdown 1-3x",
    ]
    assert warnings(results) == [
        "Not shown: 2 of 8 runs: fedavg seed 9 (missing), ssgd seed 9 (failed)",
        "Degraded, shown all the same: ssgd seed 2",
    ]


def test_the_network_in_words() -> None:
    lossy = dataclasses.replace(star((1e9,)).links[0], backward=Channel(0.5e9, 0.03, loss=0.01))
    network = dataclasses.replace(star((1e9,)), links=(lossy,), name="pair")
    said = network_in_words(network).replace("\N{EN DASH}", "-")
    assert said == "1 worker, pair, 500-1000 Mbit/s, RTT 40 ms, loss 0-1 %"
    flat = Network("lan", (Site("s", ("a", "b"), Channel(1e6, 0.005)),), (), ("a", "b"))
    assert network_in_words(flat) == "2 workers, lan, 1 Mbit/s, RTT 10 ms"


def test_seeds_in_words() -> None:
    said = [seeds_in_words(seeds) for seeds in ([4], [2, 1], [3, 1, 2], [1, 4, 9])]
    assert said == ["seed 4", "seeds 1, 2", "seeds 1\N{EN DASH}3", "seeds 1, 4, 9"]


def test_names_are_pushed_apart_and_stay_inside() -> None:
    assert spaced({"a": 0.2, "b": 0.8}, 0.1) == pytest.approx({"a": 0.2, "b": 0.8})
    assert spaced({"a": 0.5, "b": 0.52}, 0.1) == pytest.approx({"a": 0.46, "b": 0.56})
    assert spaced({"a": 0.98, "b": 0.99}, 0.1) == pytest.approx({"a": 0.9, "b": 1.0})
    crowd = spaced({str(i): 0.5 for i in range(21)}, 0.1)
    assert sorted(crowd.values()) == pytest.approx([i / 20 for i in range(21)])
