"""Stock Mininet, imported in the one way that works here.

Mininet asks for distutils, which Python 3.12 no longer has and setuptools is slow to imitate, only to
compare two version numbers of Open vSwitch. It also raises the machine's limits at start, after which
every program it spawns closes sixteen thousand descriptors.
"""

from __future__ import annotations

import string
import sys
import types


class _Version(tuple[int, ...]):
    """A dotted version number that compares by its numbers."""

    def __new__(cls, text: str) -> _Version:
        return super().__new__(cls, (int(part) for part in text.split(".")))


def _load() -> None:
    if "mininet.node" in sys.modules:
        return
    names = ("distutils", "distutils.version")
    before = {name: sys.modules.get(name) for name in names}
    package, version = (types.ModuleType(name) for name in names)
    version.StrictVersion = _Version  # type: ignore[attr-defined]
    package.version = version  # type: ignore[attr-defined]
    sys.modules.update(zip(names, (package, version), strict=True))
    try:
        import mininet.node  # noqa: F401
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


_load()

import mininet.net  # noqa: E402
from mininet.cli import CLI  # noqa: E402
from mininet.link import Intf, Link  # noqa: E402
from mininet.net import Mininet  # noqa: E402
from mininet.node import Node  # noqa: E402

mininet.net.fixLimits = lambda: None
# The command line takes a node's name for the first word only as far as these letters go.
CLI.identchars = string.ascii_letters + string.digits + "_-."

__all__ = ["CLI", "Intf", "Link", "Mininet", "Node"]
