"""What a kernel is made of, and the key that follows from it.

Two kernels with one key behave alike; another compiler or another source moves virtual times by about
0.1%, so everything that goes into the build goes into the key. This room reads the machine and changes
nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FRAGMENT = HERE / "guest.config"
PATCH = HERE / "guest.patch"
SOURCES = Path("/usr/src")

# program -> the package that holds it
TOOLS = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "strip": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
    "bzip2": "bzip2",
}


class KernelError(Exception):
    """The kernel cannot be found or built. The message says why and what to do."""


@dataclass(frozen=True)
class Source:
    """The distribution's kernel source: its package, the package's version, the archive it installs."""

    package: str
    version: str
    tarball: Path


@dataclass(frozen=True)
class Recipe:
    """All that decides what the built kernel does."""

    source: Source
    fragment: str
    patch: str
    tools: str  # the first lines of what compiler and linker say of themselves

    def key(self) -> str:
        """Sixteen hexadecimal digits. The tarball counts by its name: its folder differs by distribution."""
        parts = (self.source.package, self.source.version, self.source.tarball.name)
        digest = hashlib.sha256()
        for part in (*parts, self.fragment, self.patch, self.tools):
            digest.update(f"{len(part)}:{part}".encode())
        return digest.hexdigest()[:16]


def read_recipe() -> Recipe:
    """The recipe of this machine. KernelError when something that it needs is not installed."""
    missing = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if missing:
        raise KernelError(f"not installed: {' '.join(missing)}. `make setup` installs what is missing.")
    tools = f"{_first_line('gcc', '--version')}\n{_first_line('ld', '--version')}"
    return Recipe(find_source(), FRAGMENT.read_text(), PATCH.read_text(), tools)


def find_source(folder: Path = SOURCES) -> Source:
    """The source that the package linux-source stands for: 6.1 on Debian 12, 6.8.0 on Ubuntu 24.04."""
    depends = _ask_dpkg("${Depends}", "linux-source")
    names = [word for word in depends.replace(",", " ").split() if word.startswith("linux-source-")]
    if not names:
        raise KernelError("the package linux-source is not installed. `make setup` installs it.")
    package = names[0]
    version = _ask_dpkg("${Version}", package)
    # Debian puts the archive into the folder itself, Ubuntu into one of its own, with or without a link
    places = [folder, folder / package]
    for tarball in (place / f"{package}.tar{end}" for place in places for end in (".xz", ".bz2", ".gz")):
        if version and tarball.is_file():
            return Source(package, version, tarball)
    raise KernelError(
        f"the kernel source of the package {package} is not in {folder}. "
        f"Install it again: apt-get install --reinstall {package}"
    )


def _ask_dpkg(what: str, package: str) -> str:
    """One field of an installed package, or nothing."""
    try:
        answer = subprocess.run(
            ["dpkg-query", "-W", "-f", f"${{db:Status-Status}} {what}", package],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise KernelError("there is no dpkg-query: this is neither Debian nor Ubuntu") from None
    status, _, value = answer.stdout.partition(" ")
    return value if answer.returncode == 0 and status == "installed" else ""


def _first_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
