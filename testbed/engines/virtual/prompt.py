"""Mininet's own prompt on an experiment's network, in a guest that uses this terminal."""

from __future__ import annotations

from pathlib import Path

from testbed.engines.virtual.guest import Guest
from testbed.engines.virtual.init import FAILED
from testbed.network.plan import plan
from testbed.spec.run import RunSpec, to_plain


def open_prompt(kernel: Path, run: RunSpec) -> int:
    """Build the network of `run` and hand the terminal to Mininet until the user leaves; an exit code."""
    guest = Guest("prompt")
    try:
        order = {"plan": to_plain(plan(run.network, run.tcp)), "results": str(guest.folder)}
        code = guest.interact(kernel, "prompt", order, run.seed)
        return code or int((guest.folder / FAILED).exists())
    finally:
        guest.close()
