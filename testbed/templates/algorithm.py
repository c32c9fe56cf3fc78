"""StartingPoint: say in one line what it does.

Name the paper here: authors, "title", venue, year (arXiv or DOI), and the number of the algorithm or equation.
Then write the equations that the code below carries out:

    worker i:  pull W_v;  w_i = W_v after K local SGD steps;  push w_i - W_v
    server:    wait for all N workers;  W_{v+1} = W_v + eta * (1/N) * sum_i (w_i - W_v)

Say where the code differs from the paper, and why.
"""

from dataclasses import dataclass
from itertools import count
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from testbed.api import Algorithm, Node, weighted_mean


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters: a type with its limits, a default, and what it means in the text below."""

    local_steps: Annotated[int, Ge(0)] = 5
    """K: local steps in a round."""
    server_lr: Annotated[float, Gt(0)] = 1.0
    """eta: how far the server follows the workers; 1 takes their mean."""


class StartingPoint(Algorithm[Hyper]):
    """One line for the list of algorithms."""

    Hyper = Hyper
    roles = ("server",)
    reference = "Authors, Title, year, arXiv:0000.00000"

    async def server(self, node: Node) -> None:
        model = node.initial_model()
        for version in count():
            await node.broadcast(node.workers, "model", model, version=version)
            pushed = await node.gather("change", node.workers, version=version)
            change = weighted_mean([message.vector for message in pushed])  # (1/N) sum_i (w_i - W_v)
            model += np.float32(self.hyper.server_lr) * change  # W_{v+1} = W_v + eta * change
            node.snapshot(model, version + 1)  # at every new version: this is what gets evaluated

    async def worker(self, node: Node) -> None:
        while True:
            pulled = await node.recv("model", node.server)
            trained = await node.train(pulled.vector, self.hyper.local_steps)
            await node.send(node.server, "change", trained - pulled.vector, version=pulled.version)


# What else a node can do, in short; testbed/api/node.py has the whole of it.
#
#   await node.gradient(model)                the gradient of one mini-batch, for whoever takes steps itself
#   node.poll("change")                       a message that is there already, or None
#   node.publish(model, version)              let others take this snapshot while this node does something else
#   await node.pull(peer, after=version)      take a peer's newest snapshot that is later than `version`
#   node.on_exchange(give, take)              say what this node gives and takes when a peer exchanges with it
#   await node.exchange(peer)                 swap vectors with a peer; nothing comes between give and take
#   await node.all_reduce(group, "sum", x)    the sum over a group; also reduce_scatter and all_gather
#   node.spawn(self.other(node))              run this beside the rest; await it, or cancel() it
#   node.note("staleness", 3, peer)           write a number of your own into the records
#   node.now(), await node.sleep(seconds)     virtual time
#   node.members("monitor")                   who has a role. roles = ("server", "monitor") needs a method
#                                             `async def monitor(self, node: Node) -> None`, and a network may
#                                             say `roles: {monitor: w1}` to place it
#
# Whatever waits takes `deadline=seconds` and raises DeadlinePassed when they are over, or PeerLost when the
# peer has died; both are in testbed.api.
