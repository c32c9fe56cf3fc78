"""What an engine says about a run while it goes. Whoever shows it lies above the engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["starting", "booting", "probing", "training", "evaluating", "done", "failed"]


@dataclass(frozen=True)
class Progress:
    """One run at one moment."""

    label: str
    """the algorithm's label."""
    seed: int
    state: State
    time: float = 0.0
    """virtual seconds since training began; 0 before."""
    accuracy: float | None = None
    """test accuracy in 0 to 1 of the newest evaluated snapshot; None before the first."""
    sent_bytes: int = 0
    """bytes that left the WAN ports so far, probe included."""
    machine_seconds: float = 0.0
    """seconds of this machine since the run was started."""
    detail: str = ""
    """what else to know: why the run failed, what it waits for."""
