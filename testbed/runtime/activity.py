"""What runs beside the rest of a node, kept alive until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from itertools import count
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Running(Generic[T]):
    """`testbed.api.Activity`: a task that an algorithm cannot reach into.

    Its error is complained of when the last who could await it is gone. asyncio would complain when the task
    itself is cleared away, which a circle of references through the error puts off, possibly for ever.
    """

    def __init__(self, task: asyncio.Task[T]) -> None:
        self._task = task
        self._heard = False
        task.add_done_callback(self._ended)  # which also keeps this alive until then

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        self._task.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        try:
            return (yield from self._task.__await__())
        finally:
            self._heard = self._heard or self._task.done()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # asyncio need not complain

    @property
    def unheard(self) -> BaseException | None:
        """The error that it ended with, if nobody has awaited it."""
        if self._heard or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    def __del__(self) -> None:
        if (error := self.unheard) is not None:
            loop = self._task.get_loop()
            loop.call_exception_handler({"message": "nobody awaited this", "exception": error})


class Activities:
    """Tasks in the order in which they began. asyncio itself keeps none of them alive."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._running: WeakValueDictionary[int, Running[Any]] = WeakValueDictionary()
        self._numbers = count()

    def start(self, activity: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin when the caller next waits."""
        task = asyncio.get_running_loop().create_task(activity)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def spawn(self, activity: Coroutine[Any, Any, T]) -> Running[T]:
        """Begin when the caller next waits; an error that nobody awaits is complained of."""
        running = self._running[next(self._numbers)] = Running(self.start(activity))
        return running

    def unheard(self) -> BaseException | None:
        """The first error that somebody could still await, and nobody has."""
        return next((error for one in list(self._running.values()) if (error := one.unheard) is not None), None)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """End all of them where they stand; the tasks, which still have to take notice."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks


def outcome(life: asyncio.Task[Any]) -> BaseException | None:
    """The error that a node's life ended with. To await an activity that was cancelled is one, if not caught."""
    if life.cancelled():
        return asyncio.CancelledError("an activity that was awaited had been cancelled")
    return life.exception()


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
