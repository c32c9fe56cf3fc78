"""The user's cache folder: what took long to make and can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/wan-testbed`, by default `~/.cache/wan-testbed`; it need not exist yet.

    The variable counts only if it is an absolute path, as its specification says.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
    return root / "wan-testbed"
