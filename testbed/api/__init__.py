"""All that an algorithm may see.

An algorithm is one file holding one subclass of `Algorithm`. It says what each role does; the engine owns
everything around it: the start, the clock, the records, the evaluation and the end. The same file runs on
every engine.

A model is one flat float32 vector. Vectors that a node hands out belong to the caller. Vectors given to a
node are read at the call and not kept: both sides may change their own afterwards, also while a `send`
that was spawned is still under way.
"""

from testbed.api.algorithm import Algorithm, NoHyper
from testbed.api.errors import ComputeFailed, DeadlinePassed, PeerLost, TestbedError
from testbed.api.node import Activity, Node
from testbed.api.values import Gradient, Message, Tensor, Vector
from testbed.api.vectors import MomentumSGD, parts, sparse_vector, split_sparse, weighted_mean

__all__ = [
    "Activity",
    "Algorithm",
    "ComputeFailed",
    "DeadlinePassed",
    "Gradient",
    "Message",
    "MomentumSGD",
    "NoHyper",
    "Node",
    "PeerLost",
    "Tensor",
    "TestbedError",
    "Vector",
    "parts",
    "sparse_vector",
    "split_sparse",
    "weighted_mean",
]
