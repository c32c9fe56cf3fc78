"""What a run was made with: versions and machine, for `env.json`."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import testbed

_PACKAGES = ("torch", "numpy", "mininet", "scikit-learn", "pandas", "pyarrow")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def algorithm_digest(name: str) -> str:
    """SHA-256 of `algorithms/<name>.py`; empty where there is no such file."""
    path = Path(testbed.__file__).parents[1] / "algorithms" / f"{name}.py"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def environment(kernel: Path, algorithm: str) -> dict[str, Any]:
    """What this run is made with. `kernel` is the guest's program, `algorithm` a file's name."""
    return {"algorithm": algorithm_digest(algorithm), **_machine(kernel)}


@cache
def _machine(kernel: Path) -> dict[str, Any]:
    """Everything else that could change a number, and what the machine was.

    The virtual times of a run depend on the kernel's build, so its digest is kept.
    """
    return {
        "testbed": testbed.__version__,
        "kernel": {"path": str(kernel), "sha256": hashlib.sha256(kernel.read_bytes()).hexdigest()},
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in _PACKAGES},
        "instruction_set": "avx2",
        "machine": {
            "processor": _processor(), "cores": os.cpu_count(), "system": platform.platform(),
        },
    }  # fmt: skip
