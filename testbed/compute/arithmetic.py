"""One way of computing on every machine."""

from __future__ import annotations

import os

SETTINGS = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "1"}
"""Read by torch when it is imported: one instruction set, one order of summation, one thread.

Accuracies would depend on the processor otherwise. The slowest common set is what all x86-64
machines of the last ten years have.
"""


def hold_arithmetic() -> None:
    """Call before torch is imported for the first time."""
    os.environ.update(SETTINGS)
