"""What happens inside a guest between boot and power-off: network, probe, participants, horizon."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from testbed.compute.client import host_clock, open_slots
from testbed.engines.mininet.build import address, build, namespace_fd, widen_tcp_memory
from testbed.engines.mininet.fidelity import measure
from testbed.engines.mininet.namespaces import enter
from testbed.engines.mininet.shape import shape
from testbed.engines.virtual.crew import Child, Crew, RunFailed
from testbed.engines.virtual.watch import Watch
from testbed.network.plan import Plan
from testbed.runtime.finder import find_algorithm, make_algorithm
from testbed.runtime.journal import Journal
from testbed.runtime.participant import Pipes, Surroundings, live
from testbed.runtime.places import places
from testbed.runtime.transport import PORT
from testbed.spec.run import RunSpec, from_plain
from testbed.workload.partition import node_stream

Say = Callable[..., None]


def carry_out(order: dict[str, Any], results: Path, say: Say) -> None:
    """The whole of a run inside the guest; `results` is the run's folder."""

    def stage(state: str, **more: object) -> None:
        held, clock = host_clock()
        say(state, held_ns=held, host_ns=clock, **more)

    stage("booted")
    run = from_plain(RunSpec, order["run"])
    plan = from_plain(Plan, order["plan"])
    records = results / "records"
    widen_tcp_memory()
    net = build(plan)
    shape(net, plan)
    stage("built")
    fidelity = measure(net, plan, lambda: say("probing"))
    (results / "fidelity.json").write_text(json.dumps(fidelity, indent=1) + "\n")
    stage("probed")
    if (faults := fidelity["degraded"]) and not order["keep_going"]:
        raise RunFailed(f"the network is not what the file says ({len(faults)} faults): {'; '.join(faults[:5])}")
    crew = _fork(run, plan, net, records, order)
    crew.expect("listening")
    crew.tell("connect")
    crew.expect("ready")
    stage("ready")
    start = np.ceil(time.monotonic() + 1.0)
    crew.tell(repr(float(start)))
    stage("training")
    watch = Watch(run, plan, net, float(start), Journal(records, "network"), say)
    watch.to_the_end(crew)
    stage("done", time=watch.now(), sent_bytes=watch.sent_bytes)


def _fork(run: RunSpec, plan: Plan, net: Any, records: Path, order: dict[str, Any]) -> Crew:
    """One process per participant, in its host's namespace, from this warmed one."""
    make_algorithm(run.algorithm)
    who = places(run, find_algorithm(run.algorithm).roles)
    slots = open_slots(2 * len(who), order["dimension"])
    addresses = {place.name: (address(net[place.host]), PORT + place.number) for place in who}
    around = Surroundings(run, who, addresses, slots, records)
    node_stream(run.seed, 0).random()  # numpy loads its generators at first use: once here, not in each child
    gc.collect()
    gc.freeze()
    crew = Crew()
    for place in who:
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        descriptor = namespace_fd(net[place.host])
        pid = os.fork()
        if pid == 0:
            live(around, place, Pipes(up_write, down_read), partial(enter, descriptor))
        os.close(down_read)
        os.close(up_write)  # the child holds the only writing end: its death is the end of the pipe
        crew.add(Child(place.name, pid, down_write, up_read))
    return crew
