"""An asyncio loop on a virtual clock: when nothing is ready, the clock jumps to the next timer.

No sockets, no threads, no waiting for the machine.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from contextvars import Context
from heapq import heappush
from typing import Any

Jump = Callable[[float | None], float]
"""Told when the next timer is due, or None where there is none; says what time it is then."""


class _Jumps(selectors.BaseSelector):
    """Where asyncio would wait for the machine, the clock jumps."""

    def __init__(self, next_timer: Callable[[], float | None], jump: Jump) -> None:
        self.now = 0.0
        self._next_timer, self._jump = next_timer, jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.now = max(self.now, self._jump(self._next_timer()))
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise OSError("the simulated network has no sockets")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise OSError("the simulated network has no sockets")

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class _Timer(asyncio.TimerHandle):
    """Of two timers for the same moment the one that was set first comes first."""

    def __init__(self, number: int, when: float, *rest: Any) -> None:
        super().__init__(when, *rest)
        self._order = when, number

    def __lt__(self, other: object) -> bool:
        return isinstance(other, _Timer) and self._order < other._order


class SimLoop(asyncio.BaseEventLoop):
    """Exact virtual time, from 0. What `jump` raises ends the loop."""

    def __init__(self, jump: Jump) -> None:
        super().__init__()
        # asyncio's own loop asks these two, as its selector-based loops set them.
        self._selector = _Jumps(self._next_timer, jump)
        self._clock_resolution = 1e-12
        self._timers = 0

    def time(self) -> float:
        return self._selector.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's own, with an order among equals: simulated nodes often act at the very same moment."""
        self._timers += 1
        timer = _Timer(self._timers, when, callback, args, self, context)
        heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _next_timer(self) -> float | None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return scheduled[0].when() if scheduled else None

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else could wake this loop."""
