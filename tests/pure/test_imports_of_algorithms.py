"""Algorithms see `testbed.api` and numbers, nothing of a machine: read from their source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "algorithms"
ALLOWED = {"testbed.api", "numpy", "scipy", "annotated_types", "dataclasses", "typing", "itertools", "collections",
           "collections.abc", "math", "functools", "__future__", "enum"}  # fmt: skip


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_an_algorithm_imports_only_what_it_may(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            assert name in ALLOWED or name.partition(".")[0] in ("numpy", "scipy"), f"{path.name} imports {name}"
