"""One run on the simulated network, from start to horizon, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from testbed.api import Algorithm, PeerLost
from testbed.compute.inline import Counter, InlineComputer, Snapshot
from testbed.engines.sim.carrier import SimCarrier, Wires
from testbed.engines.sim.loop import Deadlock, SimLoop
from testbed.runtime.node import RunningNode
from testbed.runtime.places import Place, places
from testbed.spec.run import RunSpec
from testbed.workload.objective import Objective

BEATS = 40
"""signs of life from start to horizon."""


@dataclass
class Simulated:
    """What a run left, row by row, in the order in which it happened."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    sent_bytes: float = 0.0
    events: int = 0
    """ends of flows and arrivals of messages."""

    def write(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        self.rows.setdefault(table, []).append(row)


class _HorizonReached(Exception):
    """Time is over."""


def simulate(
    run: RunSpec,
    make: Callable[[], Algorithm[Any]],
    objective: Objective | None = None,
    beat: Callable[[float, Simulated], None] = lambda time, so_far: None,
) -> Simulated:
    """Carry out `run`; `make` gives each node its algorithm. `beat` is called at even virtual times.

    Deadlock when every node waits for another one; else whatever an algorithm raises.
    """
    return _Simulation(run, make, objective, beat).result()


class _Simulation:
    def __init__(
        self, run: RunSpec, make: Callable[[], Algorithm[Any]], objective: Objective | None, beat: Callable[..., None]
    ) -> None:
        self._run, self._make, self._beat = run, make, beat
        self._objective = objective or Objective(run.workload, len(run.network.workers), run.seed)
        self._out = Simulated()
        self._nodes: dict[str, RunningNode] = {}
        self._lives: dict[str, asyncio.Future[None]] = {}
        self._error: BaseException | None = None
        self._loop = SimLoop(self._stuck)

    def result(self) -> Simulated:
        loop = self._loop
        loop.set_exception_handler(self._unawaited)
        try:
            loop.run_until_complete(self._live())
        finally:
            # What was waiting at the end is cancelled, so that its spans are written down.
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            left.sort(key=lambda task: task.get_name())
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.close()
        if self._error is not None:
            raise self._error
        return self._out

    def _unawaited(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._error = self._error or context.get("exception") or RuntimeError(context["message"])

    def _stuck(self) -> None:
        lines = [f"{name} waits for {what}" for name, node in self._nodes.items() for what in node.waits.values()]
        raise Deadlock(f"deadlock at {self._loop.time():g} s: {'; '.join(lines) or 'nobody waits for anything'}")

    async def _live(self) -> None:
        run = self._run
        who = places(run, type(self._make()).roles)
        wires = Wires(run, {place.name: place.host for place in who})
        counter = Counter()
        for place in who:
            rank = place.rank if place.role == "worker" else -1
            computer = InlineComputer(self._objective, rank, counter, self._out.snapshots.append)
            node = RunningNode(run, place, who, computer, self._out)
            self._nodes[place.name] = wires.nodes[place.name] = node
            node.carrier = carrier = SimCarrier(place.name, wires)
            for other in who:
                if (other.role == "worker") != (place.role == "worker"):
                    carrier.connect(other.name)
        self._nodes[who[0].name].snapshot(self._objective.initial, 0)
        for place in who:
            life = getattr(self._make(), place.role)(self._nodes[place.name])
            self._lives[place.name] = asyncio.ensure_future(life)
        for failure in run.failures:
            self._loop.call_at(failure.time, self._die, failure.node)
        await self._to_the_horizon(who, wires)
        self._out.sent_bytes, self._out.events = wires.sent_bytes, wires.events

    def _die(self, name: str) -> None:
        self._lives[name].cancel()
        carrier = self._nodes[name].carrier
        assert isinstance(carrier, SimCarrier)
        carrier.die()

    async def _to_the_horizon(self, who: list[Place], wires: Wires) -> None:
        """Until time is over, everybody has ended, or somebody fails."""
        horizon = self._run.horizon.time
        waiting = dict(self._lives)
        number = 0
        while waiting and self._error is None:
            number += 1
            due = horizon * number / BEATS
            # The clock's own timer must not hide a deadlock, so it stands only while another one does.
            if self._loop._next_timer() is None and not self._ready():
                await asyncio.sleep(0)
                if self._loop._next_timer() is None and not self._ready() and not self._any_done(waiting):
                    self._stuck()
            await asyncio.wait(
                list(waiting.values()), timeout=max(0.0, due - self._loop.time()), return_when=asyncio.FIRST_COMPLETED
            )
            self._collect(waiting)
            if self._loop.time() >= due:
                self._out.sent_bytes = wires.sent_bytes
                self._beat(due, self._out)
                if number >= BEATS:
                    return
            else:
                number -= 1

    def _ready(self) -> bool:
        return bool(self._loop._ready)  # type: ignore[attr-defined]

    @staticmethod
    def _any_done(waiting: dict[str, asyncio.Future[None]]) -> bool:
        return any(task.done() for task in waiting.values())

    def _collect(self, waiting: dict[str, asyncio.Future[None]]) -> None:
        for name, task in list(waiting.items()):
            if task.done():
                del waiting[name]
                if not task.cancelled() and (error := task.exception()) is not None:
                    if isinstance(error, PeerLost) and self._loop.time() >= self._run.horizon.time:
                        continue
                    raise error
