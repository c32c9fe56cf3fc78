"""What runs beside the rest of a node, kept alive until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Running(Generic[T]):
    """`testbed.api.Activity`: a task that an algorithm cannot reach into."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self._task = task

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        self._task.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        return self._task.__await__()


class Activities:
    """Tasks in the order in which they began. asyncio itself keeps none of them alive."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, activity: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin when the caller next waits."""
        task = asyncio.get_running_loop().create_task(activity)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def cancel(self) -> list[asyncio.Task[Any]]:
        """End all of them where they stand; the tasks, which still have to take notice."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks


def unawaited(context: dict[str, Any]) -> BaseException | None:
    """The error behind a loop's complaint, if a run must not go on with it.

    A task that failed and was never awaited, or a callback. A lone future is no one's work: it was given an
    error for somebody who had gone already.
    """
    future = context.get("future")
    if future is not None and not isinstance(future, asyncio.Task):
        return None
    error = context.get("exception")
    return error if isinstance(error, BaseException) else None
