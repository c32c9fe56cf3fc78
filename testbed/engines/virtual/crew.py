"""The participants of a run as the process that forked them sees them: what they say, and that they live."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from dataclasses import dataclass
from typing import Any

STAGE_LIMIT = 120.0
"""virtual seconds for all participants to reach the next stage."""


class RunFailed(Exception):
    """The run cannot go on; the message says why."""


@dataclass
class Child:
    """A forked participant, and the pipes to and from it."""

    name: str
    pid: int
    down: int
    up: int
    rest: bytes = b""
    ended: bool = False


class Crew:
    """All participants of a run."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self._selector = selectors.PollSelector()

    def add(self, child: Child) -> None:
        """Take in a participant that was just forked."""
        self.children.append(child)
        self._selector.register(child.up, selectors.EVENT_READ, child)

    def tell(self, line: str) -> None:
        """Say the same to every participant."""
        for child in self.children:
            os.write(child.down, line.encode() + b"\n")

    def expect(self, state: str) -> None:
        """Wait until every participant is in that state. RunFailed when one fails, dies or is too slow."""
        missing = {child.name for child in self.children}
        limit = time.monotonic() + STAGE_LIMIT
        while missing:
            missing -= {report["node"] for report in self.reports(limit) if report["state"] == state}
            if missing and time.monotonic() >= limit:
                raise RunFailed(f"not {state} after {STAGE_LIMIT:g} s: {', '.join(sorted(missing))}")

    def reports(self, until: float) -> list[dict[str, Any]]:
        """What was said next, or nothing at the (monotonic) time `until`. RunFailed for a failure or a death."""
        found: list[dict[str, Any]] = []
        for key, _ in self._selector.select(max(until - time.monotonic(), 0)):
            child: Child = key.data
            piece = os.read(child.up, 1 << 16)
            if not piece:
                self._selector.unregister(child.up)
                self._bury(child)
                continue
            *lines, child.rest = (child.rest + piece).split(b"\n")
            found += [json.loads(line) for line in lines]
        for report in found:
            if report["state"] == "failed":
                raise RunFailed(f"{report['node']}: {report['reason']}\n{report.get('trace', '')}")
            if report["state"] == "ended":
                next(child for child in self.children if child.name == report["node"]).ended = True
        return found

    def _bury(self, child: Child) -> None:
        """A participant that ends without having said so took the run with it."""
        _, status = os.waitpid(child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if not child.ended:
            cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise RunFailed(f"{child.name} ended by itself with {cause}")
