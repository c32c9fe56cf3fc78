"""What a node writes down while it runs: spans and messages, as lines of JSON.

Lines are kept in memory and appended in batches, because a write costs more than a line. What was
written stays readable whatever happens to the run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BATCH = 2000


class Journal:
    """One node's tables, each a file `<node>-<table>.jsonl` in `folder`."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder, self._node = folder, node
        self._lines: dict[str, list[str]] = {}

    def write(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        lines = self._lines.setdefault(table, [])
        lines.append(json.dumps(row, separators=(",", ":")))
        if len(lines) >= BATCH:
            self._append(table, lines)

    def close(self) -> None:
        """Write what is left."""
        for table, lines in self._lines.items():
            self._append(table, lines)

    def _append(self, table: str, lines: list[str]) -> None:
        with (self._folder / f"{self._node}-{table}.jsonl").open("a") as file:
            file.write("\n".join([*lines, ""]))
        lines.clear()
