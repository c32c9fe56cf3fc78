"""The build: it takes the configuration it was given or says why not, and leaves no half of a kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from testbed.engines.virtual.kernel import build
from testbed.engines.virtual.kernel.commands import CommandFailed, Commands
from testbed.engines.virtual.kernel.configuration import lost_options
from testbed.engines.virtual.kernel.recipe import FRAGMENT, KernelError, Recipe, Source

FRAGMENT_TEXT = '# netem and a console\nCONFIG_NET_SCH_NETEM=y\nCONFIG_CON_CHAN="null"\n'

# a source tree whose Makefile stands for the kernel's
MAKEFILE = """
allnoconfig:
\tcp $(KCONFIG_ALLCONFIG) .config
linux:
\t@echo '  CC      one.o'
\t@echo '  CC      two.o'
\t{}
"""


def test_every_option_asked_for_must_be_there() -> None:
    result = 'CONFIG_CON_CHAN="null"\nCONFIG_NET_SCH_NETEM=y\nCONFIG_MORE=y\n'
    assert lost_options(FRAGMENT_TEXT, result) == []


@pytest.mark.parametrize("line", ["# CONFIG_NET_SCH_NETEM is not set\n", "CONFIG_NET_SCH_NETEM=m\n", ""])
def test_a_lost_option_is_named(line: str) -> None:
    assert lost_options(FRAGMENT_TEXT, line + 'CONFIG_CON_CHAN="null"\n') == ["CONFIG_NET_SCH_NETEM=y"]


def test_the_fragment_asks_for_what_the_network_needs() -> None:
    asked = FRAGMENT.read_text()
    network = ["NET_SCH_NETEM", "NET_SCH_HTB", "BRIDGE", "OPENVSWITCH", "TCP_CONG_BBR", "NET_NS"]
    needed = [*network, "UML_TIME_TRAVEL_SUPPORT", "MMAPPER", "SYSVIPC", "OVERLAY_FS"]
    assert [name for name in needed if f"CONFIG_{name}=y\n" not in asked] == []


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """This machine's recipe, with a cache of its own and a patch that does nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TESTBED_KERNEL", raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    patch = tmp_path / "guest.patch"
    patch.write_text("--- a/note\n+++ b/note\n@@ -1 +1 @@\n-old\n+new\n")
    monkeypatch.setattr(build, "PATCH", patch)
    made = Recipe(Source("linux-source-0", "0", tmp_path / "linux-source-0.tar"), FRAGMENT.read_text(), "", "gcc")
    monkeypatch.setattr(build, "read_recipe", lambda: made)
    return made


def pack(recipe: Recipe, build_command: str) -> None:
    """Makes the recipe's archive: a tree whose `make linux` does `build_command`."""
    tree = recipe.source.tarball.parent / "linux-source-0"
    tree.mkdir()
    (tree / "Makefile").write_text(MAKEFILE.format(build_command))
    (tree / "note").write_text("old\n")
    assert os.system(f"tar -cf '{recipe.source.tarball}' -C '{tree.parent}' linux-source-0") == 0


def test_a_kernel_is_built_once_and_nothing_else_stays(recipe: Recipe) -> None:
    pack(recipe, "grep -q new note && cp /bin/true linux")
    seen: list[tuple[str, int]] = []
    path = build.kernel(lambda stage, done, expected: seen.append((stage, done)))
    assert path == build.find_kernel() == build.kernel_path(recipe)
    assert os.access(path, os.X_OK)
    assert ("compiling", 2) in seen
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["build.json", "linux"]
    left = {entry.name for entry in path.parent.parent.iterdir()}
    assert left == {path.parent.name, f"{path.parent.name}.lock"}
    seen.clear()
    assert build.kernel(lambda stage, done, expected: seen.append((stage, done))) == path
    assert seen == []


def test_a_failed_build_shows_its_last_lines_and_where_the_log_is(recipe: Recipe) -> None:
    pack(recipe, "echo 'flex: not found'; exit 1")
    with pytest.raises(KernelError, match="flex: not found") as failure:
        build.kernel()
    log = build.kernel_path(recipe).parent.with_suffix(".log")
    assert str(log) in str(failure.value) and "make setup" in str(failure.value)
    assert "flex: not found" in log.read_text()
    assert not log.with_suffix(".build").exists()
    assert build.find_kernel() is None


def test_what_a_killed_build_left_is_cleared(recipe: Recipe) -> None:
    pack(recipe, "cp /bin/true linux")
    left = build.kernel_path(recipe).parent.with_suffix(".build")
    left.mkdir(parents=True)
    (left / "linux").write_text("half")
    assert build.kernel().stat().st_size > 4
    assert not left.exists()


def test_a_build_that_hangs_is_ended(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        commands = Commands(tmp_path, tmp_path / "log", limit=0.5, lock=lock.fileno())
        began = time.monotonic()
        with pytest.raises(CommandFailed, match="stopped after"):
            commands.run("sh", "-c", "echo begun; sleep 60 & wait")
    assert time.monotonic() - began < 10


def test_the_callers_make_does_not_reach_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "-n")
    monkeypatch.setenv("CFLAGS", "-O0")
    with (tmp_path / "lock").open("w") as lock:
        commands = Commands(tmp_path, tmp_path / "log", limit=10, lock=lock.fileno())
        assert [*commands.lines("sh", "-c", "echo $MAKEFLAGS$CFLAGS.")] == [".\n"]
