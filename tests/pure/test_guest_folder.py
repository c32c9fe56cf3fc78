"""The host's side of a guest without booting one: its console and its private folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.engines.virtual.folders import NoPlaceForGuests, PrivateFolder, refuse_spaces, remove_abandoned
from testbed.engines.virtual.guest import Guest


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_only_what_init_says_is_heard() -> None:
    guest = Guest("test")
    guest.console.write_bytes(b'{"loss": 1.0}\nKernel noise {"a": 1}\nguest: {"state": "booted"}\nguest: {"sta')
    assert guest.lines() == [{"state": "booted"}]
    with guest.console.open("ab") as console:
        console.write(b'te": "built"}\n')
    assert guest.lines() == [{"state": "built"}]
    guest.close()
    assert not guest.folder.exists()


def test_folders_are_removed_only_when_nobody_holds_them(tmp_path: Path) -> None:
    held, abandoned, young = PrivateFolder(), PrivateFolder(), PrivateFolder()
    for folder in (abandoned, young):
        folder._owner.close()  # what the end of a process does
    for folder in (held, abandoned):
        os.utime(folder.path, (0, 0))
    assert remove_abandoned() == [abandoned.path]
    assert held.path.exists() and young.path.exists()
    held.remove()
    assert not held.path.exists()


def test_a_space_in_a_path_is_refused_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(NoPlaceForGuests, match="my kernel"):
        refuse_spaces(tmp_path / "my kernel")
