"""Two nodes load the path between them in both directions at once: bulk, requests and acknowledgements meet.

By pushing, each sends one message after the other. By pulling, each asks for the other's snapshot again and
again, so that every request stands in the queue behind the bulk that goes its way.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from testbed.api import Algorithm, Node


@dataclass(frozen=True)
class Hyper:
    """What the two do."""

    messages: Annotated[int, Ge(1)] = 10
    """models in each direction."""
    pull: bool = False
    """Whether models are asked for, instead of sent unasked."""


class BothWays(Algorithm[Hyper]):
    """Bulk in both directions between `left` and `right`."""

    Hyper = Hyper
    roles = ("left", "right")

    async def left(self, node: Node) -> None:
        await self.swap(node, node.members("right")[0])

    async def right(self, node: Node) -> None:
        await self.swap(node, node.members("left")[0])

    async def swap(self, node: Node, peer: str) -> None:
        """Get as many models from the peer as it gets from here."""
        model = node.initial_model()
        node.publish(model, 1)
        pushing = None if self.hyper.pull else node.spawn(self.push(node, peer))
        for number in range(self.hyper.messages):
            if self.hyper.pull:
                await node.pull(peer)
            else:
                await node.recv("bulk", peer)
            node.note("arrived", number, peer)
        if pushing is not None:
            await pushing

    async def push(self, node: Node, peer: str) -> None:
        model = node.initial_model()
        for number in range(self.hyper.messages):
            await node.send(peer, "bulk", model, version=number)

    async def worker(self, node: Node) -> None:
        """Workers keep out of the way."""
