"""Synchronous SGD through a parameter server.

Chen, Pan, Monga, Bengio, Jozefowicz: "Revisiting Distributed Synchronous SGD", 2016
(arXiv:1604.00981), without backup workers.

    worker i:  pull W_v;  g_i = grad of the mean loss of its next mini-batch at W_v;  push g_i
    server:    wait for all N gradients of version v;  W_{v+1} = W_v - lr * (1/N) * sum_i g_i

Every round equals one step of one process on the N mini-batches taken together. The workload's momentum
lives on the server.
"""

from itertools import count

from testbed.api import Algorithm, MomentumSGD, Node, NoHyper, weighted_mean


class SSGD(Algorithm[NoHyper]):
    """One global step a round, behind a barrier."""

    roles = ("server",)
    reference = "Chen et al., Revisiting Distributed Synchronous SGD, 2016, arXiv:1604.00981"

    async def server(self, node: Node) -> None:
        model = node.initial_model()
        optimiser = MomentumSGD(node.momentum)
        for version in count():
            await node.broadcast(node.workers, "model", model, version=version)
            pushed = await node.gather("gradient", node.workers, version=version)
            gradient = weighted_mean([message.vector for message in pushed])  # (1/N) sum_i g_i
            optimiser.step(model, gradient, node.lr)  # W_{v+1} = W_v - lr * gradient
            node.snapshot(model, version + 1)

    async def worker(self, node: Node) -> None:
        while True:
            pulled = await node.recv("model", node.server)
            gradient = await node.gradient(pulled.vector)
            await node.send(node.server, "gradient", gradient.vector, version=pulled.version)
