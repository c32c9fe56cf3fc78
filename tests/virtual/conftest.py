"""Booting the guest for a test: one script, its output, its exit."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.engines.virtual.guest import Guest
from testbed.engines.virtual.kernel.build import find_kernel

RunInGuest = Callable[..., Any]


@pytest.fixture(scope="session")
def kernel() -> Path:
    """The guest's kernel; without one these tests cannot run, and say so."""
    found = find_kernel()
    if found is None and os.environ.get("TESTBED_REQUIRE_KERNEL"):
        pytest.fail("the guest kernel is not built, and make test should have built it")
    if found is None:
        pytest.skip("the guest kernel is not built: make setup")
    return found


@pytest.fixture
def run_in_guest(kernel: Path, tmp_path: Path) -> Iterator[RunInGuest]:
    """A function that runs a Python script in a guest and returns the last line it prints, as JSON."""
    yield lambda script, *arguments: boot(kernel, tmp_path, script, *arguments)


def boot(kernel: Path, folder: Path, script: Path, *arguments: str, limit: float = 120) -> Any:
    """See `run_in_guest`; `limit` is in seconds of the machine."""
    guest = Guest("test")
    try:
        order = {"results": str(folder), "script": str(script), "arguments": list(arguments)}
        guest.boot(kernel, "script", order, seed=1)
        pidfd = guest.pidfd()
        try:
            ended = bool(select.select([pidfd], [], [], limit)[0])
        finally:
            os.close(pidfd)
        lines = [line for line in guest.console.read_text().splitlines() if line[:1] in ("{", "[")]
        if not ended or not lines or any(said["state"] == "failed" for said in guest.lines()):
            pytest.fail(f"the guest {'failed' if ended else 'hung'}\n{guest.tail(40)}", pytrace=False)
        return json.loads(lines[-1])
    finally:
        guest.close()
