"""Private folders of guests: where they may lie, and what becomes of those whose owner was killed.

A folder belongs to the process that holds the lock on the file `owner` in it. A killed process holds no
lock, so the next command finds its folders and removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

PREFIX = "wan-testbed-"
YOUNG = 60.0
"""seconds; a folder this new may not have been locked yet."""


class NoPlaceForGuests(Exception):
    """No folder for temporary files allows programs to be run from it."""


def temporary_root() -> Path:
    """A folder for guests' memory: it has to allow mapping with execution, which some mounts forbid."""
    for folder in (os.environ.get("TMPDIR"), "/dev/shm", tempfile.gettempdir(), str(Path.home() / ".cache")):
        if folder and os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return Path(folder)
    raise NoPlaceForGuests("every temporary folder is mounted noexec; set TMPDIR to one that is not")


def refuse_spaces(kernel: Path) -> None:
    """NoPlaceForGuests when a path that goes on the kernel's command line has a space, which would split it."""
    project = Path(__file__).resolve().parents[3]
    for path in (kernel, project, Path(sys.executable), temporary_root()):
        if any(letter.isspace() for letter in str(path)):
            raise NoPlaceForGuests(f"{path} has a space in it, which a guest's command line cannot hold; move it")


class PrivateFolder:
    """A new folder of our own, until `remove`."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=temporary_root()))
        self._owner: IO[bytes] = (self.path / "owner").open("wb")
        fcntl.flock(self._owner, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Delete it and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._owner.close()


def remove_abandoned() -> list[Path]:
    """Remove this user's folders that nobody holds any more; which they were."""
    removed = []
    for path in temporary_root().glob(f"{PREFIX}*"):
        try:
            status = path.stat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < YOUNG:
                continue
            with (path / "owner").open("rb") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # in use, or gone by now
        shutil.rmtree(path, ignore_errors=True)
        removed.append(path)
    return removed
