"""Federated averaging.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: "Communication-Efficient Learning of Deep Networks
from Decentralized Data", AISTATS 2017 (arXiv:1602.05629), algorithm 1.

    server:    S_t = a random set of max(C * N, 1) workers;  send W_t to them
               W_{t+1} = sum over k in S_t of (n_k / n_S) * w_k
               n_S = sum over k in S_t of n_k
    worker k:  w_k = W_t after E local SGD steps;  send w_k

The paper counts local epochs; here E counts steps, as in all other algorithms of this testbed. The
local momentum starts at zero in every round.
"""

from dataclasses import dataclass
from itertools import count
from typing import Annotated

from annotated_types import Ge, Gt, Le

from testbed.api import Algorithm, Node, weighted_mean


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters of FedAvg."""

    local_steps: Annotated[int, Ge(0)] = 10
    """E: local steps in a round."""
    fraction: Annotated[float, Gt(0), Le(1)] = 1.0
    """C: share of the workers that take part in a round; 1 suits a few sites on a WAN."""


class FedAvg(Algorithm[Hyper]):
    """Several local steps a round, behind a barrier."""

    Hyper = Hyper
    roles = ("server",)
    reference = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, arXiv:1602.05629"

    async def server(self, node: Node) -> None:
        model = node.initial_model()
        for version in count():
            chosen = self.choose(node)
            await node.broadcast(chosen, "model", model, version=version)
            trained = await node.gather("trained", chosen, version=version)
            model = weighted_mean(  # W_{t+1} = sum_k (n_k / n_S) w_k
                [message.vector for message in trained],
                [message.meta["samples"] for message in trained],
            )
            node.snapshot(model, version + 1)

    def choose(self, node: Node) -> list[str]:
        """S_t, in rank order."""
        size = max(int(self.hyper.fraction * len(node.workers) + 1e-9), 1)  # 0.29 * 100 is 28.999...
        if size == len(node.workers):
            return list(node.workers)
        ranks = node.rng.choice(len(node.workers), size, replace=False)
        return [node.workers[rank] for rank in sorted(ranks)]

    async def worker(self, node: Node) -> None:
        while True:
            pulled = await node.recv("model", node.server)
            trained = await node.train(pulled.vector, self.hyper.local_steps)
            await node.send(node.server, "trained", trained, version=pulled.version, meta={"samples": node.samples})
