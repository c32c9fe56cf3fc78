"""What is known of the error of a simulated figure, in words."""

from __future__ import annotations

from testbed.record.results import Results


def signed(error: float) -> str:
    """A share as a percentage with its sign: "+0.4 %"."""
    return f"{100 * error:+.1f} %"


def truth_in_words(results: Results) -> str:
    """What is known of the error of simulated results; empty where none is simulated."""
    if all(run.engine != "sim" for run in results.specs.values()):
        return ""
    calibration = results.calibration
    if results.calibration_doubt:
        return f"Not calibrated: {results.calibration_doubt}; testbed calibrate does it again"
    if calibration is None:
        return "Not calibrated against emulation; testbed calibrate does that"
    parts = []
    kinds = {"target": f"time to {100 * calibration.target:.6g} %", "worker": "workers' times", "probe": "bulk probes"}
    for kind, what in kinds.items():
        worst = calibration.worst(kind, results.algorithms)
        if worst is None:
            continue
        if worst.error is None:
            engine = "virtual" if worst.sim is None else "sim"
            parts.append(f"{what} of {worst.label} only on the {engine} engine")
        else:
            parts.append(f"{what} off by up to {signed(worst.error)}")
    return f"Against emulation (seed {calibration.seed}): " + ", ".join(parts)
