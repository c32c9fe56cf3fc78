"""Who takes part in a run, and on which host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.spec.run import RunSpec


@dataclass(frozen=True)
class Place:
    """A node's place among all nodes of a run."""

    name: str
    role: str
    rank: int
    number: int
    """place among all nodes."""
    host: str

    def first_peers(self, everybody: Sequence[Place]) -> list[str]:
        """Whom to connect to before the clock starts: workers and other roles; workers not among themselves."""
        return [other.name for other in everybody if (other.role == "worker") != (self.role == "worker")]


def places(run: RunSpec, roles: Sequence[str]) -> list[Place]:
    """The nodes of the further roles in the order of `roles`, then the workers in rank order.

    A node has its host's name; one whose host carries another node already is `role@host`.
    """
    found: list[Place] = []
    taken = set(run.network.workers)
    for role in roles:
        for rank, host in enumerate(run.network.hosts_of(role)):
            name = host if host not in taken else f"{role}@{host}"
            taken.add(name)
            found.append(Place(name, role, rank, len(found), host))
    first = len(found)
    return found + [Place(w, "worker", rank, first + rank, w) for rank, w in enumerate(run.network.workers)]
