"""What must be done whole or not at all, whenever somebody presses ^C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What a command may answer with an exception."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that come while the body runs are heard after it.

    Programs that the body starts do not hear ^C at all, until they say otherwise: a terminal sends it to
    every process of a command, and the command tells its own what to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are no business of this thread
        return
    handlers = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    came: list[tuple[int, FrameType | None]] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # what is started here inherits this
    try:
        for number in handlers:  # another thread may take a signal that is blocked in this one
            signal.signal(number, lambda number, frame: came.append((number, frame)))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for which, frame in came:
        handlers[signal.Signals(which)](which, frame)
