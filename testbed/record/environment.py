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
from testbed.spec.run import AlgorithmChoice

FLOW_MODEL = ("carrier", "fluid", "paths", "window", "wires")
"""modules of the sim engine"""
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


def algorithm_digest(choice: AlgorithmChoice) -> str:
    """SHA-256 of the chosen algorithm's file; empty where there is no such file."""
    own = Path(testbed.__file__).parents[1] / "algorithms" / f"{choice.name}.py"
    path = Path(choice.file) if choice.file else own
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def flow_model_digest() -> str:
    """SHA-256 of the code that decides how long simulated messages take."""
    folder = Path(testbed.__file__).parent / "engines" / "sim"
    digest = hashlib.sha256()
    for name in FLOW_MODEL:
        digest.update((folder / f"{name}.py").read_bytes())
    return digest.hexdigest()


def environment(kernel: Path | None, choice: AlgorithmChoice) -> dict[str, Any]:
    """What this run is made with. `kernel` is the guest's program, None where the engine has no guest."""
    model = {} if kernel else {"flow_model": flow_model_digest()}
    return {"algorithm": algorithm_digest(choice), **model, **_machine(kernel)}


@cache
def _machine(kernel: Path | None) -> dict[str, Any]:
    """Everything else that could change a number, and what the machine was.

    The virtual times of a run depend on the kernel's build, so its digest is kept.
    """
    return {
        "testbed": testbed.__version__,
        "kernel": kernel and {"path": str(kernel), "sha256": hashlib.sha256(kernel.read_bytes()).hexdigest()},
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in _PACKAGES},
        "instruction_set": "avx2",
        "machine": {
            "processor": _processor(), "cores": os.cpu_count(), "system": platform.platform(),
        },
    }  # fmt: skip
