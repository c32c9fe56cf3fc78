"""The event loop: exact timers, one clock reading a wake-up, and no event lost while callbacks are ready."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Coroutine
from typing import Any

from testbed.runtime.loop import ExactLoop


def run(main: Coroutine[Any, Any, None]) -> None:
    loop = ExactLoop()
    try:
        loop.run_until_complete(asyncio.wait_for(main, 20))
    finally:
        loop.close()


def test_sleeps_shorter_than_a_millisecond_are_not_rounded_up() -> None:
    async def nap() -> None:
        naps = []
        for _ in range(200):
            began = time.monotonic()
            await asyncio.sleep(0.0001)
            naps.append(time.monotonic() - began)
        # Rounded up to milliseconds, not one of them could be shorter than that, however busy the machine is.
        assert 0.0001 <= min(naps) < 0.001

    run(nap())


def test_the_clock_stands_still_between_two_wake_ups() -> None:
    async def compute() -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        time.sleep(0.01)
        assert loop.time() == before
        await asyncio.sleep(0.001)
        assert loop.time() >= before + 0.01

    run(compute())


def test_a_task_that_never_waits_does_not_starve_the_sockets() -> None:
    async def spin() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.send(b"x")
        reading = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(ours, 1))
        for _ in range(100):
            await asyncio.sleep(0)
        assert reading.done() and reading.result() == b"x"
        ours.close()
        theirs.close()

    run(spin())


def test_readable_and_writable_ends_are_told_apart() -> None:
    async def watch() -> None:
        loop = asyncio.get_running_loop()
        read, write = os.pipe()
        seen: list[str] = []
        loop.add_writer(write, lambda: (seen.append("writable"), loop.remove_writer(write)))
        await asyncio.sleep(0.01)
        assert seen == ["writable"]
        loop.add_reader(read, lambda: seen.append(os.read(read, 8).decode()))
        os.write(write, b"hello")
        await asyncio.sleep(0.01)
        assert seen == ["writable", "hello"]
        loop.remove_reader(read)
        os.close(read)
        os.close(write)

    run(watch())
