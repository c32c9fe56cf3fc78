"""Booting the guest for a test: one script, its output, its exit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KERNEL = Path(os.environ.get("TESTBED_KERNEL", "linux"))
ROOT = Path(__file__).parents[2]
_INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
export PATH={path} PYTHONPATH={root} PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 HOME=/run
sleep 11
chrt -f 1 {python} {script} {arguments} >{folder}/out 2>{folder}/err </dev/null
echo $? >{folder}/status
echo o >/proc/sysrq-trigger
sleep 10
"""

RunInGuest = Callable[..., Any]


@pytest.fixture
def run_in_guest(tmp_path: Path) -> RunInGuest:
    """A function that runs a Python script in a guest and returns the last line it prints, as JSON."""
    if not KERNEL.exists():
        pytest.skip("no guest kernel: name one in TESTBED_KERNEL")
    return lambda script, *arguments: boot(tmp_path, script, *arguments)


def boot(folder: Path, script: Path, *arguments: str, limit: float = 120) -> Any:
    """See `run_in_guest`; `limit` is in seconds of the machine."""
    init = folder / "init"
    init.write_text(
        _INIT.format(
            path=os.environ["PATH"] + ":/usr/sbin:/sbin",
            root=ROOT,
            python=sys.executable,
            script=script,
            arguments=" ".join(arguments),
            folder=folder,
        )
    )
    init.chmod(0o755)
    command = [str(KERNEL), "mem=1G", "root=hostfs", "rootfstype=hostfs", "rootflags=/", "rw", f"init={init}"]
    command += ["time-travel=inf-cpu", "time-travel-start=1700000000000000000", "con=null", "con0=null,fd:1"]
    command += ["panic=-1", f"uml_dir={folder}", "umid=guest", "quiet"]
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "UML_RANDOM_SEED": "1"}
    console = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, env=environment
    )
    status = folder / "status"
    if not status.exists() or status.read_text().strip() != "0":
        errors = (folder / "err").read_text() if (folder / "err").exists() else ""
        pytest.fail(f"the guest failed\n{errors}\n{console.stdout[-2000:]}", pytrace=False)
    return json.loads((folder / "out").read_text().splitlines()[-1])
