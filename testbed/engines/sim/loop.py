"""An asyncio loop on a virtual clock: when nothing is ready, the clock jumps to the next timer.

No sockets, no threads, no waiting for the machine. When there is nothing to jump to, every task waits for
another one, and the loop says so at once.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class Deadlock(Exception):
    """Every task waits and nothing can wake one."""


class _Jumps(selectors.BaseSelector):
    """Where asyncio would wait for the machine, the clock jumps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.upcoming: Callable[[], float | None] = lambda: None
        self.stuck: Callable[[], None] = lambda: None

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            self.stuck()
        elif timeout > 0:
            when = self.upcoming()
            self.now = max(self.now, self.now + timeout if when is None else when)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        raise OSError("the simulated network has no sockets")

    def unregister(self, fileobj: Any) -> Any:
        raise OSError("the simulated network has no sockets")

    def get_map(self) -> Any:
        return {}


class SimLoop(asyncio.BaseEventLoop):
    """Exact virtual time, from 0."""

    def __init__(self, stuck: Callable[[], None]) -> None:
        super().__init__()
        self._selector = _Jumps()
        self._selector.upcoming = self._next_timer
        self._selector.stuck = stuck
        self._clock_resolution = 1e-12

    def time(self) -> float:
        return self._selector.now

    def _next_timer(self) -> float | None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return scheduled[0].when() if scheduled else None

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else could wake this loop."""
