"""Whole runs in a guest: the records, against the papers' equations and against each other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from testbed.api import MomentumSGD
from testbed.record.folder import RunFolder
from testbed.spec.spec_yaml import read_spec_yaml
from testbed.workload.models import dimension
from testbed.workload.objective import Objective
from tests.virtual.small import carry_out, small

BYTES = 4 * dimension("mlp", "digits")


@pytest.fixture(scope="module")
def folders(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """One run of each algorithm, side by side."""
    runs = [small("ssgd"), small("fedavg", hyper={"local_steps": 5})]
    done, _ = carry_out(kernel, tmp_path_factory.mktemp("results"), runs)
    for folder in done:
        assert folder.failure is None, folder.failure
    return dict(zip(("ssgd", "fedavg"), done, strict=True))


def table(folder: RunFolder, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder.table(name))


def test_a_run_leaves_its_whole_folder(folders: dict[str, RunFolder]) -> None:
    folder = folders["ssgd"]
    assert {path.name for path in folder.path.iterdir()} == {
        "spec.yaml", "env.json", "fidelity.json", "profile.json", "metrics.parquet", "notes.parquet", "spans.parquet",
        "messages.parquet", "links.parquet", "DONE",
    }  # fmt: skip
    assert read_spec_yaml((folder.path / "spec.yaml").read_text()) == small("ssgd")
    assert json.loads((folder.path / "env.json").read_text())["packages"]["torch"]
    assert [stamp["state"] for stamp in json.loads((folder.path / "profile.json").read_text())] == [
        "booted", "built", "probed", "ready", "training", "done", "evaluated",
    ]  # fmt: skip


def test_every_pair_and_every_link_was_measured(folders: dict[str, RunFolder]) -> None:
    found = json.loads((folders["ssgd"].path / "fidelity.json").read_text())
    assert found["degraded"] == []
    assert len(found["round_trips"]) == 4 * 3
    for trip in found["round_trips"]:
        assert trip["measured"] == pytest.approx(trip["expected"], abs=1e-4)
    expected = {round(flow["expected"]) for flow in found["goodputs"]}
    assert expected == {round(rate * 1448 / 1514) for rate in (20e6, 10e6, 5e6)}
    for flow in found["goodputs"]:
        assert flow["measured"] == pytest.approx(flow["expected"], rel=0.01)


def test_ssgd_over_tcp_learns_what_one_process_learns(folders: dict[str, RunFolder]) -> None:
    run = small("ssgd")
    one = Objective(run.workload, workers=3, seed=run.seed)
    model, optimiser = one.initial.copy(), MomentumSGD()
    losses = {}
    metrics = table(folders["ssgd"], "metrics")
    for version in range(int(metrics["version"].max()) + 1):
        losses[version] = one.evaluate(model, 0, 359)[0] / 359
        together = np.concatenate([one._batches[rank][version] for rank in range(3)])
        optimiser.step(model, one.gradient_of(model, together)[0], run.workload.lr)
    assert len(metrics) >= 6
    for row in metrics.itertuples():
        assert row.loss == pytest.approx(losses[row.version], abs=1e-4)
        assert row.samples == row.version * 3 * 16


def test_snapshots_are_as_far_apart_as_asked(folders: dict[str, RunFolder]) -> None:
    metrics = table(folders["fedavg"], "metrics")
    assert metrics["time"].iloc[0] < 1e-3 and metrics["version"].iloc[0] == 0
    assert (np.floor(metrics["time"]).diff().dropna() >= 1).all()


def test_a_transfer_takes_what_the_link_allows(folders: dict[str, RunFolder]) -> None:
    messages = table(folders["fedavg"], "messages")
    models = messages[(messages["tag"] == "model") & (messages["target"] == "w3")]
    assert (models["bytes"] == BYTES + 48).all()  # a header of 32 bytes, the tag, and a gap up to a multiple of 16
    # 5 Mbit/s and 40 ms one way: nothing arrives before propagation and serialisation.
    frames = BYTES + 48 + np.ceil((BYTES + 48) / 1448) * 66
    floor = 0.040 + 8 * frames / 5e6
    taken = models["arrived"] - models["sent"]
    assert taken.min() > floor
    assert taken.min() < floor + 0.090  # one more round trip: the first window does not hold a whole model


def test_steps_take_their_modelled_time(folders: dict[str, RunFolder]) -> None:
    spans = table(folders["fedavg"], "spans")
    compute = spans[spans["phase"] == "compute"].iloc[:-6]
    mean = (compute["end"] - compute["start"]).groupby(compute["node"]).mean()
    # Five steps of 20 ms, jitter sigma 0.1: ten rounds average to within 5 %.
    assert mean["w1"] == pytest.approx(0.100, rel=0.05)
    assert mean["w3"] == pytest.approx(0.200, rel=0.05)


def test_bytes_on_the_wire_are_payload_headers_and_acknowledgements(folders: dict[str, RunFolder]) -> None:
    links, messages = table(folders["ssgd"], "links"), table(folders["ssgd"], "messages")
    port = links[links["port"] == "sitew1>hub"].sort_values("time")
    assert (port["bytes"].diff().dropna() >= 0).all()
    wire = port["bytes"].iloc[-1] - port["bytes"].iloc[0]
    payload = messages[messages["source"] == "w1"]["bytes"].sum()
    # 66 bytes of headers on 1448 of payload, and an acknowledgement of 66 for every two segments down.
    assert wire == pytest.approx(payload * (1 + 66 / 1448 + 66 / 2896), rel=0.05)


def test_every_run_of_another_seed_differs(kernel: Path, tmp_path: Path, folders: dict[str, RunFolder]) -> None:
    done, _ = carry_out(kernel, tmp_path, [small("ssgd", seed=2)])
    assert not table(done[0], "metrics").equals(table(folders["ssgd"], "metrics"))
