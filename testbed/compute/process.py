"""The compute processes: torch lives here, imported once per command.

`python -m testbed.compute.process FD ...` imports torch and forks, so that there is one process per socket.
Each speaks to the command over its socket, one JSON object a packet: first its own process number goes
back; then one with three file descriptors introduces a guest, and evaluations go back. All processes read
the same ring pipes, so whoever is free takes the next job.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from testbed.compute.queue import answer
from testbed.compute.slots import Slot, map_slots
from testbed.compute.snapshot import Evaluation, Snapshot, evaluate
from testbed.spec.run import Workload, from_plain
from testbed.workload.objective import Objective


@dataclass
class Guest:
    """A running guest as this process sees it."""

    name: str
    objective: Objective
    slots: list[Slot]
    ring: int
    answer: int


class ComputeProcess:
    """The loop: doorbells first, then evaluation slice by slice, then sleep."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)
        self._guests: dict[str, Guest] = {}
        self._waiting: deque[tuple[str, Snapshot]] = deque()
        """Of which guest, and what."""
        self._current: tuple[str, Iterator[Evaluation | None]] | None = None
        self._leaving: set[str] = set()

    def run(self) -> None:
        """Serve until the parent closes the socket."""
        self._tell(pid=os.getpid())
        while True:
            busy = self._current is not None or bool(self._waiting)
            for key, _ in self._selector.select(0 if busy else None):
                if key.data is None:
                    if not self._introduce():
                        return
                else:
                    self._serve(key.data)
            self._evaluate_a_slice()
            self._say_goodbye()

    def _tell(self, **line: object) -> None:
        self._control.sendall(json.dumps(line).encode())

    def _introduce(self) -> bool:
        """Take in a new guest; False when the parent is gone."""
        raw, descriptors, _, _ = socket.recv_fds(self._control, 65536, 3)
        if not raw:
            return False
        order = json.loads(raw)
        memory, ring, answers = descriptors
        try:
            objective = Objective(from_plain(Workload, order["workload"]), order["workers"], order["seed"])
            slots = map_slots(memory, order["slots"], order["dimension"])
        except Exception as error:  # this guest cannot be served; the others can
            os.close(ring)
            os.close(answers)
            self._tell(guest=order["guest"], failed=f"{type(error).__name__}: {error}")
            return True
        finally:
            os.close(memory)
        os.set_blocking(ring, False)
        guest = Guest(order["guest"], objective, slots, ring, answers)
        self._guests[guest.name] = guest
        self._selector.register(ring, selectors.EVENT_READ, guest)
        return True

    def _serve(self, guest: Guest) -> None:
        try:
            raw = os.read(guest.ring, 4)
        except BlockingIOError:
            return  # another process was faster
        if not raw:
            self._selector.unregister(guest.ring)
            os.close(guest.ring)
            os.close(guest.answer)
            self._leaving.add(guest.name)
            return
        slot = guest.slots[struct.unpack("I", raw)[0]]
        answer(guest.objective, slot, lambda snapshot: self._waiting.append((guest.name, snapshot)))
        with suppress(BrokenPipeError):  # the guest is gone; its ring tells so next
            os.write(guest.answer, raw)

    def _evaluate_a_slice(self) -> None:
        if self._current is None and self._waiting:
            name, snapshot = self._waiting.popleft()
            self._current = name, evaluate(self._guests[name].objective, snapshot)
        if self._current is not None and (row := next(self._current[1])) is not None:
            self._tell(guest=self._current[0], **asdict(row))
            self._current = None

    def _say_goodbye(self) -> None:
        """Forget guests that ended, once their last snapshot is evaluated."""
        if not self._leaving or self._current is not None:
            return
        for name in self._leaving - {name for name, _ in self._waiting}:
            self._leaving.discard(name)
            del self._guests[name]
            self._tell(guest=name, finished=True)


def serve(control: socket.socket) -> None:
    """Serve over one socket until its other end is closed."""
    with suppress(BrokenPipeError, ConnectionResetError, KeyboardInterrupt):  # the command ended; so do we
        ComputeProcess(control).run()


def main() -> None:
    """One process per inherited socket; this one serves the first."""
    first, *others = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:])
    forked = []
    for number, control in enumerate(others):
        pid = os.fork()
        if pid == 0:
            for other in (first, *others[:number], *others[number + 1 :]):
                other.close()  # an open copy would keep a dead process from being noticed
            serve(control)
            os._exit(0)
        forked.append(pid)
    for control in others:
        control.close()
    serve(first)
    for pid in forked:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
