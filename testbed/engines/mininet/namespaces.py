"""Network namespaces held by file descriptors, so that a node needs no process of its own.

A thread is in one network namespace at a time. What it opens there (sockets) and what it spawns
there (processes) stays there when the thread goes back.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def enter(descriptor: int) -> None:
    """Move the calling thread into the network namespace that `descriptor` holds."""
    _checked(_libc.setns(descriptor, CLONE_NEWNET), "entering a network namespace")


def current() -> int:
    """A descriptor that holds the calling thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def create() -> int:
    """A descriptor that holds a new network namespace; the thread stays where it is."""
    home = current()
    try:
        _checked(_libc.unshare(CLONE_NEWNET), "making a network namespace")
        try:
            return current()
        finally:
            enter(home)
    finally:
        os.close(home)


@contextmanager
def inside(descriptor: int) -> Iterator[None]:
    """The body runs in the namespace that `descriptor` holds; the thread comes back afterwards."""
    home = current()
    try:
        enter(descriptor)
        try:
            yield
        finally:
            enter(home)
    finally:
        os.close(home)
