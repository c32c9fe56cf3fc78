"""Builds the guest's kernel once and keeps it in the user's cache folder.

`<cache>/wan-testbed/kernel-<key>/linux` is the kernel, `build.json` beside it says how it came about. It
appears there in one move, when it is finished. Nothing outside that folder is written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from testbed.cache import cache_folder
from testbed.engines.virtual.kernel.commands import CommandFailed, Commands
from testbed.engines.virtual.kernel.configuration import lost_options
from testbed.engines.virtual.kernel.recipe import (
    FRAGMENT,
    PATCH,
    KernelError,
    Recipe,
    read_recipe,
)

# the stage, objects compiled so far, objects expected (a count from 6.1; others differ a little)
Progress: TypeAlias = Callable[[str, int, int], None]

EXPECTED_OBJECTS = 670
BUILD_LIMIT = 1800.0  # s; two cores need 150 s

# Parts of the source that no user-mode kernel compiles. Their Kconfig and Makefile are read all the same.
UNUSED = [
    *(f"*/arch/[a-t]*/*.{end}" for end in ("[chS]", "dts", "dtsi")),  # all but um and x86
    *(f"*/drivers/{name}/*.[ch]" for name in ("gpu", "media", "net/ethernet", "net/wireless", "staging")),
    *("*/sound/*.[ch]", "*/Documentation/*/*", "*/tools/testing/*"),
]


def find_kernel() -> Path | None:
    """The kernel if there is one: TESTBED_KERNEL's, or the one built for this machine's recipe."""
    named = os.environ.get("TESTBED_KERNEL")
    if named:
        if not os.access(named, os.X_OK) or not Path(named).is_file():
            raise KernelError(f"TESTBED_KERNEL names {named}, which is no program. Correct it or unset it.")
        return Path(named).resolve()
    try:
        built = kernel_path(read_recipe())
    except KernelError:
        return None
    return built if built.is_file() else None


def kernel_path(recipe: Recipe) -> Path:
    """Where the kernel of `recipe` is, or will be."""
    return cache_folder() / f"kernel-{recipe.key()}" / "linux"


def kernel(progress: Progress = lambda stage, done, expected: None) -> Path:
    """The kernel, built if need be (two to five minutes). KernelError tells why it cannot be built."""
    ready = find_kernel()
    if ready is not None:
        return ready
    if platform.machine() != "x86_64":
        raise KernelError(f"the guest's kernel needs x86-64, this is {platform.machine()}..")
    recipe = read_recipe()
    target = kernel_path(recipe)
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent.with_suffix(".lock"), progress) as lock:
        if not target.is_file():
            _build(recipe, target, lock, progress)
    return target


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[int]:
    """Waits for the lock and holds it; yields its descriptor, which the build's commands inherit.

    So the lock outlives a killed build until its last compiler is gone, and the next build starts clean.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another build", 0, EXPECTED_OBJECTS)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _build(recipe: Recipe, target: Path, lock: int, progress: Progress) -> None:
    """Builds into a folder beside the target's, and moves the result into place when it is whole."""
    started = time.monotonic()
    home = target.parent
    tree = home.with_suffix(".build")
    log = home.with_suffix(".log")
    shutil.rmtree(tree, ignore_errors=True)  # what a killed build left
    tree.mkdir()
    commands = Commands(tree, log, BUILD_LIMIT, lock)
    try:
        _compile(recipe, commands, progress)
        _install(recipe, tree / "linux", home, time.monotonic() - started)
    except CommandFailed as failure:
        raise KernelError(_explain(failure, log)) from None
    except OSError as failure:
        raise KernelError(f"the kernel could not be built: {failure}") from failure
    finally:
        progress("cleaning up", EXPECTED_OBJECTS, EXPECTED_OBJECTS)
        shutil.rmtree(tree, ignore_errors=True)
    log.unlink(missing_ok=True)


def _compile(recipe: Recipe, commands: Commands, progress: Progress) -> None:
    """Leaves the finished program `linux` in the build's folder."""
    progress("unpacking", 0, EXPECTED_OBJECTS)
    excluded = [f"--exclude={pattern}" for pattern in UNUSED]
    commands.run("tar", "-xf", str(recipe.source.tarball), "--strip-components=1", *excluded)
    commands.run("patch", "-p1", "--batch", "--forward", "-i", str(PATCH))
    progress("configuring", 0, EXPECTED_OBJECTS)
    commands.run("make", "ARCH=um", f"KCONFIG_ALLCONFIG={FRAGMENT}", "allnoconfig")
    lost = lost_options(recipe.fragment, (commands.folder / ".config").read_text())
    if lost:
        raise KernelError(
            f"{recipe.source.package} {recipe.source.version} did not accept {', '.join(lost)}. "
            f"Each must be removed from {FRAGMENT} or have what it depends on added there."
        )
    done = 0
    for line in commands.lines("make", "ARCH=um", f"-j{len(os.sched_getaffinity(0))}", "linux"):
        done += line.startswith(("  CC  ", "  AS  "))
        progress("compiling", min(done, EXPECTED_OBJECTS), EXPECTED_OBJECTS)
    commands.run("strip", "linux")


def _install(recipe: Recipe, program: Path, home: Path, seconds: float) -> None:
    """Puts the program and its description into place. One move, so that nobody sees half of it."""
    fresh = program.parent / "finished"
    fresh.mkdir()
    program.rename(fresh / "linux")
    about = {
        "key": recipe.key(),
        "source": recipe.source.package,
        "version": recipe.source.version,
        "tools": recipe.tools.splitlines(),
        "sha256": hashlib.sha256((fresh / "linux").read_bytes()).hexdigest(),
        "seconds": round(seconds, 1),
    }
    (fresh / "build.json").write_text(json.dumps(about, indent=2) + "\n")
    shutil.rmtree(home, ignore_errors=True)  # a folder without a kernel: someone removed it by hand
    fresh.rename(home)


def _explain(failure: CommandFailed, log: Path) -> str:
    """The message of a failed build: its last lines, where all of them are, what may help."""
    tail = "\n".join(f"    | {line}" for line in failure.last_lines)
    return (
        f"building the kernel failed: {failure}\n{tail}\n"
        f"The whole log is {log}.\n"
        "If a program or a header is missing, `make setup` installs the packages the build needs; "
        "if the disk is full, it needs 700 MB in the cache folder (XDG_CACHE_HOME moves it). "
        "TESTBED_KERNEL may name a kernel built elsewhere."
    )
