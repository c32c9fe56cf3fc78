"""Where the machine's seconds of an experiment go, and how many emulated seconds it passes in one of them.

    python benchmarks/speed.py [EXPERIMENT] [-- further arguments of `testbed run`]

Runs the experiment into a temporary folder and reads the stamps that each guest left in profile.json.
Machines differ and are noisy: compare ratios, and numbers of one call with each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from testbed.spec.spec_yaml import read_spec_yaml

NAMES = {
    "booted": "boot",
    "built": "network",
    "probed": "probe",
    "ready": "workers",
    "training": "start",
    "done": "traffic",
    "evaluated": "shutdown, evaluation",
}


def first_steps(command: list[str]) -> tuple[dict[str, float], float]:
    """Run the command; seconds until each run trained, since the command or since that run began, and in all."""
    began = time.monotonic()
    begun: dict[str, float] = {}
    trained: dict[str, float] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            run, _, rest = line.partition(":")
            if rest.startswith(" booting"):
                begun.setdefault(run, time.monotonic() if trained else began)
            elif rest.startswith(" training") and run not in trained:
                trained[run] = time.monotonic() - begun[run]
    if process.returncode:
        sys.exit(process.returncode)
    return trained, time.monotonic() - began


def main() -> None:
    """Measure and print."""
    arguments = sys.argv[1:]
    further = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    named = arguments[: arguments.index("--")] if "--" in arguments else arguments
    experiment = named[0] if named else "experiments/quickstart.yaml"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "testbed", "run", experiment, "--results", folder, *further]
        trained, whole = first_steps(command)
        print(f"{'run':18} {'first step':>10}  " + "  ".join(f"{name:>8}" for name in NAMES.values()) + "  held  speed")
        emulated = 0.0
        for path in sorted(Path(folder).glob("*/*/seed=*/profile.json")):
            run = read_spec_yaml((path.parent / "spec.yaml").read_text())
            stamps = json.loads(path.read_text())
            ends = [0.0, *(stamp["host"] for stamp in stamps)]
            parts = dict(zip((stamp["state"] for stamp in stamps), (b - a for a, b in pairwise(ends)), strict=True))
            held = {stamp["state"]: stamp["held"] for stamp in stamps}
            waited = held["done"] - held["training"]
            name = f"{run.algorithm.label} seed {run.seed}"
            cells = "  ".join(f"{parts[state]:{max(8, len(title))}.2f}" for state, title in NAMES.items())
            speed = run.horizon.time / parts["done"]
            print(f"{name:18} {trained[name]:9.2f}s  {cells}  {waited:4.2f}  {speed:4.1f}x")
            emulated += run.horizon.time
        print(f"{emulated:.0f} emulated seconds in {whole:.1f} s of the machine, everything included")


if __name__ == "__main__":
    main()
