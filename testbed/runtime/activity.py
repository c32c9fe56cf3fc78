"""Something that runs beside the rest of a node."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Running(Generic[T]):
    """`testbed.api.Activity`: an asyncio task that an algorithm cannot reach into."""

    def __init__(self, activity: Coroutine[Any, Any, T]) -> None:
        self._task = in_background(activity)

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        self._task.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        return self._task.__await__()


def in_background(activity: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that lives until it ends: asyncio itself keeps none alive."""
    task = asyncio.get_running_loop().create_task(activity)
    _RUNNING[id(task)] = task
    task.add_done_callback(_forget)
    return task


_RUNNING: dict[int, asyncio.Future[Any]] = {}


def _forget(task: asyncio.Future[Any]) -> None:
    _RUNNING.pop(id(task), None)
