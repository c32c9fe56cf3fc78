"""The life of one node's process: settle in, connect, start together, run to the horizon, write down.

It speaks to the process that forked it over two pipes: lines of JSON go up (`listening`, `ready`,
`ended`, `failed`), single lines come down (`connect`, then the start time).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.api import PeerLost
from testbed.compute.client import SlotComputer
from testbed.compute.slots import Slot
from testbed.runtime.activity import outcome, unawaited
from testbed.runtime.finder import make_algorithm
from testbed.runtime.journal import Journal
from testbed.runtime.loop import ExactLoop
from testbed.runtime.node import RunningNode
from testbed.runtime.places import Place
from testbed.runtime.transport import Transport
from testbed.spec.run import RunSpec

LAST_MOMENT = 1e-3
"""seconds before the horizon in which a peer's end is no failure: they all end there, one by one."""


@dataclass(frozen=True)
class Pipes:
    """Descriptors to and from the forking process."""

    up: int
    down: int


@dataclass(frozen=True)
class Surroundings:
    """What all participants of a run share."""

    run: RunSpec
    everybody: Sequence[Place]
    addresses: dict[str, tuple[str, int]]
    """node to IPv4 address and port."""
    slots: Sequence[Slot]
    records: Path


def live(around: Surroundings, place: Place, pipes: Pipes, enter: Callable[[], None]) -> None:
    """Run one participant and end this process; `enter` moves it into its host's network.

    Never returns: nothing of the forked parent may run twice.
    """
    code = 1
    try:
        enter()
        gc.freeze()
        loop = ExactLoop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_live(around, place, pipes))
        code = 0
    except BaseException as error:  # this process ends here: whatever it was has to be told
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        _say(pipes, place, "failed", reason=reason, trace=traceback.format_exc()[-3000:])
    finally:
        os._exit(code)


async def _live(around: Surroundings, place: Place, pipes: Pipes) -> None:
    loop = asyncio.get_running_loop()
    journal = Journal(around.records, place.name)
    try:
        computer = SlotComputer(around.slots, place.number, place.rank if place.role == "worker" else -1)
        node = RunningNode(around.run, place, around.everybody, computer, journal)
        transport = Transport(place.name, around.addresses, around.run.tcp, node.deliver, node.lose)
        node.carrier = transport
        await transport.listen()
        _say(pipes, place, "listening")
        await _read_line(pipes.down)
        for peer in place.first_peers(around.everybody):
            await transport.connect(peer)
        _say(pipes, place, "ready")
        node.start = float(await _read_line(pipes.down))
        await asyncio.sleep(node.start - loop.time())
        await _run_to_horizon(around.run, place, node)
        _say(pipes, place, "ended", time=node.now())
    finally:
        journal.close()


async def _run_to_horizon(run: RunSpec, place: Place, node: RunningNode) -> None:
    """Let the algorithm act until it ends by itself, its time is over, or its process is to die."""
    algorithm = make_algorithm(run.algorithm)
    if place.number == 0:
        node.snapshot(node.initial_model(), 0)
    loop = asyncio.get_running_loop()
    wrong: asyncio.Future[None] = loop.create_future()

    def complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if (error := unawaited(context)) is not None and not wrong.done():
            wrong.set_exception(error)

    loop.set_exception_handler(complain)
    end = min([run.horizon.time, *(failure.time for failure in run.failures if failure.host == place.host)])
    life = loop.create_task(getattr(algorithm, place.role)(node))
    await asyncio.wait({life, wrong}, timeout=end - node.now(), return_when=asyncio.FIRST_COMPLETED)
    if life.done():
        _raise_unless_late(outcome(life), end - node.now())
    # Whoever has nothing left to do stays, or its last messages would be lost with its connections.
    await asyncio.wait({wrong}, timeout=end - node.now())
    if not wrong.done() and end == run.horizon.time:
        complain(loop, {"exception": node.activities.unheard()})
    if wrong.done():
        _raise_unless_late(wrong.exception(), end - node.now())
    if end < run.horizon.time:
        node.carrier.die()
    life.cancel()  # so that what was waited for is written down
    await asyncio.wait({life, *node.activities.cancel()}, timeout=LAST_MOMENT)


def _raise_unless_late(error: BaseException | None, left: float) -> None:
    if error is not None and not (isinstance(error, PeerLost) and left < LAST_MOMENT):
        raise error


def _say(pipes: Pipes, place: Place, state: str, **more: object) -> None:
    os.write(pipes.up, json.dumps({"node": place.name, "state": state, **more}).encode() + b"\n")


async def _read_line(descriptor: int) -> str:
    """A line from the forking process, without blocking the loop that accepts connections."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, readable.set_result, None)
    await readable
    loop.remove_reader(descriptor)
    return os.read(descriptor, 4096).decode().strip()
