"""Every worker sends to one node at once: flows with unequal paths share its port."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from testbed.api import Algorithm, Node


@dataclass(frozen=True)
class Hyper:
    """What the workers do."""

    messages: Annotated[int, Ge(1)] = 5
    """models of each worker."""
    idle: str = ""
    """The worker on the sink's own host, which has no network to cross."""


class IntoOne(Algorithm[Hyper]):
    """Bulk from all workers into the node `sink`."""

    Hyper = Hyper
    roles = ("sink",)

    async def sink(self, node: Node) -> None:
        senders = [name for name in node.workers if name != self.hyper.idle]
        for number in range(self.hyper.messages * len(senders)):
            message = await node.recv("bulk")
            node.note("arrived", number, message.sender)

    async def worker(self, node: Node) -> None:
        model = node.initial_model()
        if node.name != self.hyper.idle:
            for number in range(self.hyper.messages):
                await node.send(node.members("sink")[0], "bulk", model, version=number)
