"""What an algorithm is: roles, hyper-parameters, and where it comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from testbed.api.node import Node


@dataclass(frozen=True)
class NoHyper:
    """For an algorithm with nothing to set."""


H = TypeVar("H")


class Algorithm(ABC, Generic[H]):
    """What each role does. Every node of a run has an instance of its own.

    `Hyper` is a frozen dataclass of hyper-parameters; an instance of it is `self.hyper`. Limits are written
    as `Annotated[int, Ge(1)]`, and what stands below a field explains it to the user.
    """

    Hyper: ClassVar[type] = NoHyper
    roles: ClassVar[tuple[str, ...]] = ()
    """Roles beside `worker`: `server`, `monitor`, ... Each is the name of an `async def` method of one
    argument, the node. The network says on which host it runs, or on which hosts."""
    reference: ClassVar[str] = ""
    """The paper."""

    def __init__(self, hyper: H) -> None:
        self.hyper = hyper

    @abstractmethod
    async def worker(self, node: Node) -> None:
        """A worker's whole life; the engine ends it at the horizon."""
