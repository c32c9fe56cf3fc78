"""The tables of a run: their columns, and how JSON lines become Parquet.

While a run goes, every node appends one JSON object a line to `records/<node>-<table>.jsonl` below
the run's folder. Afterwards `jsonl_to_parquet` collects a table's parts into one file. The same rows
give the same bytes, whoever wrote them and in whatever order.

Times are virtual seconds since training began; sizes are payload bytes (links: bytes on the wire).
Importing this module is cheap: Arrow is loaded when a table is written or read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLES: dict[str, dict[str, str]] = {
    "metrics": {
        "time": "float64",
        "node": "string",
        "version": "int64",
        "samples": "int64",
        "loss": "float64",
        "accuracy": "float64",
    },
    "spans": {
        "node": "string",
        "phase": "string",
        "peer": "string",
        "start": "float64",
        "end": "float64",
        "bytes": "int64",
    },
    "messages": {
        "source": "string",
        "target": "string",
        "tag": "string",
        "version": "int64",
        "bytes": "int64",
        "sent": "float64",
        "arrived": "float64",
    },
    "links": {
        "time": "float64",
        "port": "string",
        "bytes": "int64",
        "packets": "int64",
        "drops": "int64",
    },
    "notes": {
        "time": "float64",
        "node": "string",
        "name": "string",
        "peer": "string",
        "value": "float64",
    },
}
"""Columns of every table, in file order, and their Arrow types."""

SORT: dict[str, tuple[str, ...]] = {
    "metrics": ("time", "node", "version"),
    "spans": ("start", "node", "end"),
    "messages": ("sent", "source", "target", "tag", "version"),
    "links": ("time", "port"),
    "notes": ("time", "node", "name", "peer"),
}
"""What the rows are sorted by. The remaining columns follow, so that the order is total."""

ABSENT: dict[tuple[str, str], Any] = {("spans", "peer"): "", ("spans", "bytes"): 0}
"""Columns that a row may leave out, and what stands there then."""

BATCH = 100_000
"""rows turned into Arrow at once; bounds the memory that Python objects take."""


@dataclass(frozen=True)
class Converted:
    """What `jsonl_to_parquet` did."""

    rows: int
    """rows in the Parquet file."""
    dropped: int
    """last lines that a killed run left unfinished, at most one a part."""


def schema(table: str) -> Any:
    """The `pyarrow.Schema` of `table`; KeyError when there is no such table.

    A float may be missing (a message that never arrived has no `arrived`); nothing else may.
    """
    import pyarrow as pa

    return pa.schema(
        [pa.field(name, pa.type_for_alias(kind), nullable=kind == "float64") for name, kind in TABLES[table].items()]
    )


def parts(folder: Path, table: str) -> list[Path]:
    """The JSONL parts of `table` in the run folder `folder`, in the order of their names."""
    return sorted((folder / "records").glob(f"*-{table}.jsonl"))


def jsonl_to_parquet(folder: Path, table: str) -> Converted:
    """Collect the parts of `table` in run folder `folder` into `<table>.parquet`.

    An unfinished last line is dropped and counted: a killed run leaves one. Any other line that is
    not a row of the table is a ValueError with file and line. A table without parts gets no rows,
    except that a Parquet file which is already there stays. The parts are left alone.
    """
    found = parts(folder, table)
    target = folder / f"{table}.parquet"
    if not found and target.exists():
        import pyarrow.parquet as pq

        return Converted(rows=pq.read_metadata(target).num_rows, dropped=0)
    dropped: list[Path] = []
    rows = write_rows(target, table, _rows_of_parts(found, dropped))
    return Converted(rows=rows, dropped=len(dropped))


def write_rows(path: Path, table: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write `rows` of `table` to the Parquet file `path`, sorted; returns how many.

    The file appears whole or not at all. ValueError when a row has other columns or other types.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = [_arrow(table, batch) for batch in _batches(rows)]
    whole = pa.Table.from_batches(batches, schema(table)).combine_chunks()
    order = [*SORT[table], *(name for name in TABLES[table] if name not in SORT[table])]
    whole = whole.sort_by([(name, "ascending") for name in order])
    unfinished = path.with_name(path.name + ".part")
    # Everything that could differ from one writer to the next is fixed; nothing here holds a date.
    pq.write_table(whole, unfinished, version="2.6", compression="zstd", row_group_size=1 << 20)
    os.replace(unfinished, path)
    return int(whole.num_rows)


def _rows_of_parts(found: Iterable[Path], dropped: list[Path]) -> Iterator[dict[str, Any]]:
    """Every row of the parts; a part with an unfinished last line is added to `dropped`."""
    for part in found:
        lines = part.read_bytes().split(b"\n")
        # A finished line ends in a newline, so the last piece is empty or was cut off. It counts as
        # a row if the object is whole: no proper beginning of a JSON object is one itself.
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                if number == len(lines):
                    dropped.append(part)
                    continue
                raise ValueError(f"{part}, line {number}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{part}, line {number}: a row is a JSON object, not {line[:60]!r}")
            yield row


def _batches(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    batch: list[Mapping[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _arrow(table: str, rows: list[Mapping[str, Any]]) -> Any:
    """Rows as one Arrow batch, checked against the table's columns and types."""
    import pyarrow as pa

    names = TABLES[table]
    needed = {name for name in names if (table, name) not in ABSENT}
    for row in rows:
        if not needed <= row.keys() <= names.keys():
            missing, unknown = sorted(needed - row.keys()), sorted(row.keys() - names.keys())
            raise ValueError(f"a row of {table} lacks {missing} and has the unknown {unknown}: {dict(row)}")
    arrays = []
    for field in schema(table):
        values = [row.get(field.name, ABSENT.get((table, field.name))) for row in rows]
        try:
            array = pa.array(values, field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"{table}.{field.name} must be {field.type}: {error}") from None
        if array.null_count and not field.nullable:
            row = dict(rows[array.is_null().index(True).as_py()])
            raise ValueError(f"{table}.{field.name} may not be null: {row}")
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema(table))
