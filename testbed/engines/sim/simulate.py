"""One run on the simulated network, from start to horizon, in this process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from testbed.api import Algorithm
from testbed.compute.inline import Counter, InlineComputer
from testbed.compute.snapshot import Snapshot
from testbed.engines.sim.carrier import SimCarrier
from testbed.engines.sim.loop import SimLoop
from testbed.engines.sim.window import FRAME
from testbed.engines.sim.wires import Wires
from testbed.runtime.activity import outcome, unawaited
from testbed.runtime.node import RunningNode
from testbed.runtime.places import Place, places
from testbed.spec.run import RunSpec
from testbed.workload.objective import Objective

SAMPLES_PER_RUN = 40
"""readings of the ports from start to horizon, and signs of life."""
_LAST_TURNS = 5
"""turns of the loop in which whatever is cancelled at the end may write down what it was at."""


class Deadlock(Exception):
    """Workers wait, and nothing can wake one. A server that waits when all work is done is none."""


@dataclass
class Simulated:
    """What a run has left so far."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By table, in the order in which it happened."""
    sent_bytes: int = 0
    """on the wires of the WAN, as far as transfers have ended."""
    events: int = 0
    """ends of flows and arrivals of messages."""

    def write(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        self.rows.setdefault(table, []).append(row)


Beat = Callable[[float, Simulated], None]


def simulate(
    run: RunSpec,
    make: Callable[[], Algorithm[Any]],
    objective: Objective,
    keep: Callable[[Snapshot], None],
    beat: Beat = lambda time, so_far: None,
) -> Simulated:
    """Carry out `run`. `make` gives each node its algorithm, `keep` is given every model shown.

    `beat` is called at even virtual times. Deadlock when workers wait and nothing is under way; else whatever an
    algorithm raises.
    """
    return _Simulation(run, make, objective, keep, beat).result()


class _Simulation:
    def __init__(
        self, run: RunSpec, make: Callable[[], Algorithm[Any]], objective: Objective,
        keep: Callable[[Snapshot], None], beat: Beat,
    ) -> None:  # fmt: skip
        self._run, self._make, self._objective, self._keep, self._beat = run, make, objective, keep, beat
        self._out = Simulated()
        self._nodes: dict[str, RunningNode] = {}
        self._carriers: dict[str, SimCarrier] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._dead: set[str] = set()
        self._error: BaseException | None = None
        self._beats = 0
        self._over = False
        self._loop = SimLoop(self._jump)
        self._wires: Wires

    def result(self) -> Simulated:
        loop = self._loop
        loop.set_exception_handler(lambda _, context: self._fail(unawaited(context)))
        try:
            loop.run_until_complete(self._begin())
            loop.run_forever()
            for name, node in self._nodes.items():
                if name not in self._dead:
                    self._error = self._error or node.activities.unheard()
        finally:
            self._over = True
            self._end()
        if self._error is not None:
            raise self._error
        return self._out

    async def _begin(self) -> None:
        who = places(self._run, type(self._make()).roles)
        self._wires = Wires(self._run.network)
        counter, hosts = Counter(), {place.name: place.host for place in who}
        for place in who:
            rank = place.rank if place.role == "worker" else -1
            computer = InlineComputer(self._objective, rank, counter, self._keep)
            node = self._nodes[place.name] = RunningNode(self._run, place, who, computer, self._out)
            node.carrier = carrier = SimCarrier(
                place.name, hosts, self._wires, self._run, self._carriers, node.deliver, node.lose
            )
            for other in place.first_peers(who):
                carrier.connect(other)
        self._nodes[who[0].name].snapshot(self._objective.initial, 0)
        for place in who:
            life = self._loop.create_task(getattr(self._make(), place.role)(self._nodes[place.name]))
            self._lives[place.name] = life
            life.add_done_callback(self._life_ended)
        for failure in self._run.failures:
            self._loop.call_at(failure.time, self._die, [place for place in who if place.host == failure.host])

    def _die(self, who: list[Place]) -> None:
        for place in who:
            self._dead.add(place.name)
            self._lives[place.name].remove_done_callback(self._life_ended)
            self._lives[place.name].cancel()
            self._nodes[place.name].activities.cancel()
            self._carriers[place.name].die()

    def _life_ended(self, life: asyncio.Task[None]) -> None:
        self._fail(outcome(life))

    def _fail(self, error: BaseException | None) -> None:
        """The first error stands and ends the run."""
        if error is not None and not self._over:
            self._error = self._error or error
            self._loop.stop()

    def _jump(self, when: float | None) -> float:
        """Nothing is left to do at this moment: read the ports on the way to the next, or end."""
        horizon = self._run.horizon.time
        if self._over:
            return self._loop.time()
        if when is None and any(not self._lives[worker].done() for worker in self._run.network.workers):
            raise Deadlock(self._who_waits())
        when = horizon if when is None else min(when, horizon)
        while self._beats <= SAMPLES_PER_RUN and (due := horizon * self._beats / SAMPLES_PER_RUN) <= when:
            self._sample(due)
            self._beats += 1
        if when == horizon:
            self._loop.stop()
        return when

    def _who_waits(self) -> str:
        lines = [f"{name} waits for {what}" for name, node in self._nodes.items() for what in node.waits.values()]
        return f"deadlock at {self._loop.time():g} s: {'; '.join(lines)}"

    def _sample(self, due: float) -> None:
        paths, carried = self._wires.paths, self._wires.carried
        for port in paths.counted:
            size = carried[port]
            self._out.write(
                "links", time=due, port=paths.names[port], bytes=round(size), packets=math.ceil(size / FRAME), drops=0
            )
        self._out.sent_bytes = round(sum(carried[port] for port in range(2 * len(self._run.network.links))))
        self._out.events = self._wires.ended + sum(carrier.arrived for carrier in self._carriers.values())
        self._beat(due, self._out)

    def _end(self) -> None:
        """Cancel what still waits, so that its spans are written down; whoever resists is left behind."""
        for name, life in self._lives.items():
            life.cancel()
            self._nodes[name].activities.cancel()
            self._carriers[name].leaving.cancel()
        for _ in range(_LAST_TURNS):
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
