"""A kernel is built anew exactly when something that goes into it has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.engines.virtual.kernel import build, recipe
from testbed.engines.virtual.kernel.recipe import KernelError, Recipe, Source

DEBIAN = Source("linux-source-6.1", "6.1.192-3", Path("/usr/src/linux-source-6.1.tar.xz"))
RECIPE = Recipe(DEBIAN, "CONFIG_NET=y\n", "--- a\n+++ b\n", "gcc 12.2.0\nGNU ld 2.40")


@pytest.mark.parametrize(
    "other",
    [
        replace(RECIPE, source=replace(DEBIAN, package="linux-source-6.8.0")),
        replace(RECIPE, source=replace(DEBIAN, version="6.1.193-1")),
        replace(RECIPE, source=replace(DEBIAN, tarball=Path("/usr/src/linux-source-6.1.tar.bz2"))),
        replace(RECIPE, fragment="CONFIG_NET=n\n"),
        replace(RECIPE, patch=""),
        replace(RECIPE, tools="gcc 13.2.0\nGNU ld 2.42"),
        # the same letters, divided otherwise
        replace(RECIPE, fragment=RECIPE.fragment[:-1], patch=RECIPE.fragment[-1] + RECIPE.patch),
    ],
)
def test_each_ingredient_changes_the_key(other: Recipe) -> None:
    assert other.key() != RECIPE.key()


def test_the_folder_of_the_source_does_not_change_the_key() -> None:
    moved = replace(DEBIAN, tarball=Path("/elsewhere/linux-source-6.1.tar.xz"))
    assert replace(RECIPE, source=moved).key() == RECIPE.key()


@pytest.fixture
def dpkg(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """What is installed, instead of this machine's packages: (package, field) -> value."""
    fields: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(recipe, "_ask_dpkg", lambda what, package: fields.get((package, what), ""))
    return fields


@pytest.mark.parametrize(
    "place",
    [
        "linux-source-6.8.0.tar.bz2",
        "linux-source-6.8.0/linux-source-6.8.0.tar.bz2",
        "linux-source-6.8.0.tar.xz",
    ],
)
def test_the_source_is_found_where_distributions_put_it(
    tmp_path: Path, dpkg: dict[tuple[str, str], str], place: str
) -> None:
    dpkg["linux-source", "${Depends}"] = "linux-source-6.8.0 (= 6.8.0-31.31)"
    dpkg["linux-source-6.8.0", "${Version}"] = "6.8.0-31.31"
    tarball = tmp_path / place
    tarball.parent.mkdir(exist_ok=True)
    tarball.touch()
    assert recipe.find_source(tmp_path) == Source("linux-source-6.8.0", "6.8.0-31.31", tarball)


def test_a_missing_source_package_is_named(tmp_path: Path, dpkg: dict[tuple[str, str], str]) -> None:
    with pytest.raises(KernelError, match=r"linux-source is not installed.*make setup"):
        recipe.find_source(tmp_path)


def test_a_missing_archive_names_its_package(tmp_path: Path, dpkg: dict[tuple[str, str], str]) -> None:
    dpkg["linux-source", "${Depends}"] = "linux-source-6.1 (= 6.1.192-3)"
    dpkg["linux-source-6.1", "${Version}"] = "6.1.192-3"
    with pytest.raises(KernelError, match=r"--reinstall linux-source-6.1"):
        recipe.find_source(tmp_path)


def test_missing_tools_are_named_by_package(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"flex", "xz"}
    monkeypatch.setattr("shutil.which", lambda tool: None if tool in absent else f"/usr/bin/{tool}")
    with pytest.raises(KernelError, match=r"not installed: flex xz-utils.*make setup"):
        recipe.read_recipe()


def test_a_ready_kernel_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = tmp_path / "linux"
    ready.write_text("")
    ready.chmod(0o755)
    monkeypatch.setenv("TESTBED_KERNEL", str(ready))
    assert build.kernel() == ready
    monkeypatch.setenv("TESTBED_KERNEL", str(tmp_path / "none"))
    with pytest.raises(KernelError, match=r"TESTBED_KERNEL"):
        build.find_kernel()


def test_nothing_is_found_before_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESTBED_KERNEL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "read_recipe", lambda: RECIPE)
    assert build.find_kernel() is None
    built = build.kernel_path(RECIPE)
    assert built == tmp_path / "wan-testbed" / f"kernel-{RECIPE.key()}" / "linux"
    built.parent.mkdir(parents=True)
    built.touch()
    assert build.find_kernel() == built
