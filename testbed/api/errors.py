"""What can go wrong for an algorithm, and be acted on."""

from __future__ import annotations


class TestbedError(Exception):
    """Something an algorithm may catch."""

    __test__ = False  # pytest would take the name for a test class


class PeerLost(TestbedError):
    """A peer is gone for good. `peer` is its name, `why` is what is known of its end."""

    def __init__(self, peer: str, why: str) -> None:
        super().__init__(f"{peer} is lost: {why}")
        self.peer = peer
        self.why = why


class DeadlinePassed(TestbedError):
    """It was not done in time, and will not be done."""


class ComputeFailed(TestbedError):
    """The compute service refused a job: wrong shape, or numbers that are not finite."""
