"""Mininet's command line on a network built from a plan."""

from __future__ import annotations

import os
from typing import Any

from testbed.engines.mininet.build import build
from testbed.engines.mininet.shape import shape
from testbed.engines.mininet.stock import CLI
from testbed.network.plan import Plan
from testbed.spec.run import from_plain


def serve_prompt(plain: dict[str, Any]) -> None:
    """Build, shape, and let the user type until the end of input or `exit`."""
    plan = from_plain(Plan, plain)
    net = build(plan)
    shape(net, plan)
    _take_console()
    CLI(net)
    net.stop()


def _take_console() -> None:
    """Make the console this process's terminal, so that ^C reaches what runs at the prompt."""
    console = os.open("/dev/console", os.O_RDWR)
    for descriptor in range(3):
        os.dup2(console, descriptor)
