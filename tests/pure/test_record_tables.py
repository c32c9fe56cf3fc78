"""JSON lines become Parquet: order, bytes, unfinished lines, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from testbed.record.tables import TABLES, Converted, jsonl_to_parquet, schema, write_rows


def metric(time: float, node: str = "ps", **more: Any) -> dict[str, Any]:
    return {
        "time": time, "node": node, "version": 1, "samples": 32, "loss": 0.5, "accuracy": 0.25, **more
    }  # fmt: skip


def put(folder: Path, part: str, *rows: dict[str, Any], tail: str = "") -> None:
    (folder / "records").mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "records" / part).write_text(text + tail)


def read(folder: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return rows


def test_parts_are_collected_in_the_order_of_time_then_node(tmp_path: Path) -> None:
    put(tmp_path, "w1-metrics.jsonl", metric(2.0, "w1"), metric(1.0, "w1"))
    put(tmp_path, "w0-metrics.jsonl", metric(2.0, "w0"))
    put(tmp_path, "w-x-spans.jsonl", {"node": "w-x", "phase": "compute", "start": 1.0, "end": 2.0})
    assert jsonl_to_parquet(tmp_path, "metrics") == Converted(rows=3, dropped=0)
    assert [(row["time"], row["node"]) for row in read(tmp_path, "metrics")] == [
        (1.0, "w1"),
        (2.0, "w0"),
        (2.0, "w1"),
    ]


def test_a_span_may_leave_out_peer_and_bytes(tmp_path: Path) -> None:
    put(tmp_path, "w0-spans.jsonl", {"node": "w0", "phase": "compute", "start": 1.0, "end": 2.0})
    jsonl_to_parquet(tmp_path, "spans")
    assert read(tmp_path, "spans")[0] == {
        "node": "w0", "phase": "compute", "peer": "", "start": 1.0, "end": 2.0, "bytes": 0
    }  # fmt: skip


@pytest.mark.parametrize("tail", ['{"time": 3.0, "no', '{"time": 3.0, "node": "\udce4'])
def test_an_unfinished_last_line_is_dropped_and_counted(tmp_path: Path, tail: str) -> None:
    put(tmp_path, "w0-metrics.jsonl", metric(1.0))
    put(tmp_path, "w1-metrics.jsonl", metric(2.0))
    with (tmp_path / "records/w1-metrics.jsonl").open("ab") as part:
        part.write(tail.encode(errors="surrogateescape"))
    assert jsonl_to_parquet(tmp_path, "metrics") == Converted(rows=2, dropped=1)


def test_a_whole_last_line_counts_without_its_newline(tmp_path: Path) -> None:
    put(tmp_path, "w0-metrics.jsonl", metric(1.0), tail=json.dumps(metric(2.0)))
    assert jsonl_to_parquet(tmp_path, "metrics") == Converted(rows=2, dropped=0)


def test_a_broken_line_in_the_middle_is_an_error_with_its_place(tmp_path: Path) -> None:
    put(tmp_path, "w0-metrics.jsonl", tail='{"time"\n' + json.dumps(metric(2.0)) + "\n")
    with pytest.raises(ValueError, match=r"w0-metrics.jsonl, line 1: not JSON"):
        jsonl_to_parquet(tmp_path, "metrics")
    assert not (tmp_path / "metrics.parquet").exists()


def test_the_same_rows_give_the_same_bytes_whoever_wrote_them(tmp_path: Path) -> None:
    rows = [metric(float(i % 5), f"w{i}", loss=float("nan") if i == 3 else 0.5) for i in range(20)]
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    put(one, "a-metrics.jsonl", *rows)
    put(two, "a-metrics.jsonl", *reversed(rows[:7]))
    put(two, "b-metrics.jsonl", *rows[7:])
    for folder in (one, two):
        jsonl_to_parquet(folder, "metrics")
    assert (one / "metrics.parquet").read_bytes() == (two / "metrics.parquet").read_bytes()


def test_a_message_that_never_arrived_has_no_arrival(tmp_path: Path) -> None:
    row = {"source": "a", "target": "b", "tag": "g", "version": 1, "bytes": 9, "sent": 1.0, "arrived": None}
    assert write_rows(tmp_path / "messages.parquet", "messages", [row]) == 1
    assert read(tmp_path, "messages") == [row]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (metric(1.0, color=3), "unknown.*color"),
        ({"time": 1.0}, "lacks.*accuracy"),
        (metric(1.0, version=None), "metrics.version may not be null"),
        (metric(1.0, version="one"), "metrics.version must be int64"),
    ],
)
def test_rows_of_another_shape_are_refused(tmp_path: Path, row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        write_rows(tmp_path / "metrics.parquet", "metrics", [row])
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_parts_has_no_rows_and_spares_what_is_there(tmp_path: Path) -> None:
    assert jsonl_to_parquet(tmp_path, "links") == Converted(rows=0, dropped=0)
    assert pq.read_schema(tmp_path / "links.parquet").equals(schema("links"))
    write_rows(tmp_path / "metrics.parquet", "metrics", [metric(1.0)])
    assert jsonl_to_parquet(tmp_path, "metrics") == Converted(rows=1, dropped=0)


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_a_schema_of_its_columns(table: str) -> None:
    assert schema(table).names == list(TABLES[table])
