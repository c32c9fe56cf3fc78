"""The set-up's scripts: skipped when up to date, and clear about what to do when they cannot go on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "testbed" / "setup"

TOOLS = ["sh", "env", "cat", "chmod", "cp", "cut", "date", "dirname", "grep", "mkdir", "mktemp", "rm", "sed"]
TOOLS += ["sha256sum", "sleep", "tail"]

ALL_INSTALLED = 'shift 3; for package; do echo "$package installed"; done'
WITHOUT_FLEX_AND_BC = (
    'shift 3; for package; do case $package in flex|bc) echo "$package not-installed";; '
    '*) echo "$package installed";; esac; done; exit 1'
)


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


class Machine:
    """A PATH of its own: the ordinary tools, and programs that are played."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found
            (self.bin / tool).symlink_to(found)
        self.play("id", "echo 1000")
        self.play("apt-get", 'echo "apt-get $*"')

    def play(self, name: str, script: str) -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def run(self, script: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "TMPDIR": str(self.bin.parent), **variables}
        return run([str(script)], env=environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_packages_are_left_alone_when_all_are_there(machine: Machine) -> None:
    machine.play("dpkg-query", ALL_INSTALLED)
    machine.play("apt-get", "exit 1")
    done = machine.run(SETUP / "packages.sh")
    assert done.returncode == 0, done.stderr
    assert "up to date" in done.stdout
    assert [entry.name for entry in machine.bin.parent.iterdir()] == ["bin"]  # no log stays


def test_without_root_and_sudo_the_command_is_given(machine: Machine) -> None:
    machine.play("dpkg-query", WITHOUT_FLEX_AND_BC)
    done = machine.run(SETUP / "packages.sh")
    assert done.returncode == 2
    assert "not installed: flex bc" in done.stderr
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert "apt-get update && apt-get install -y --no-install-recommends flex bc" in lines


def test_only_what_is_missing_is_installed_and_the_lists_first(machine: Machine) -> None:
    mark, asked = machine.bin / "installed", machine.bin / "asked"
    machine.play("dpkg-query", f"if [ -e {mark} ]; then {ALL_INSTALLED}; else {WITHOUT_FLEX_AND_BC}; fi")
    machine.play("sudo", f'echo "$*" >>{asked}; case "$*" in *install*) : >{mark}; esac')
    done = machine.run(SETUP / "packages.sh")
    assert done.returncode == 0, done.stderr
    commands = [line.split("Timeout=300 ")[1] for line in asked.read_text().splitlines() if "apt-get" in line]
    assert commands == ["update", "install --no-install-recommends flex bc"]
    assert "installing flex bc" in done.stdout


def test_a_failed_installation_shows_what_apt_get_said(machine: Machine) -> None:
    machine.play("dpkg-query", WITHOUT_FLEX_AND_BC)
    machine.play("sudo", 'case "$*" in *install*) echo "E: Unable to locate package flex"; exit 100; esac')
    done = machine.run(SETUP / "packages.sh")
    assert done.returncode == 1
    assert "E: Unable to locate package flex" in done.stderr
    assert "universe" in done.stderr


def test_another_distribution_is_told(machine: Machine) -> None:
    (machine.bin / "apt-get").unlink()
    done = machine.run(SETUP / "packages.sh")
    assert done.returncode == 2
    assert "Debian" in done.stderr


class Project:
    """A copy of what the environment's step reads, and a Python that only pretends to install."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder = folder / "project"
        self.script = self.folder / "testbed" / "setup" / "environment.sh"
        shutil.copytree(SETUP, self.script.parent)
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        self._machine = machine
        machine.play(
            "python",
            f"""
            case "$*" in
                *version_info\\[*) echo 3.11.2 ;;
                *version_info*) exit 0 ;;
                *"-m venv"*) mkdir -p .venv/bin; cp {machine.bin}/python .venv/bin/python ;;
                *"pip install"*) echo "$*" >>pip.log; : >.venv/bin/testbed; chmod +x .venv/bin/testbed ;;
            esac""",
        )

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "pip.log").unlink(missing_ok=True)
        return self._machine.run(self.script, **{"PYTHON": "python", **variables})

    def asked(self) -> list[str]:
        """What pip was asked to install, without its options."""
        log = self.folder / "pip.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.split("version-check ")[1] for line in lines]


@pytest.fixture
def project(tmp_path: Path, machine: Machine) -> Project:
    return Project(tmp_path, machine)


def test_the_environment_is_made_once(project: Project) -> None:
    first = project.run(TORCH="torch==2.9.0")
    assert first.returncode == 0, first.stderr
    assert project.asked() == ["torch==2.9.0+cpu", "-e .[test]"]
    assert "up to date" in project.run(TORCH="torch==2.9.0").stdout
    assert project.asked() == []


def test_a_changed_project_or_pytorch_brings_it_up_to_date(project: Project) -> None:
    project.run()
    mark = project.folder / ".venv" / "mark"
    mark.touch()
    with (project.folder / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert "installed" in project.run().stdout
    assert project.run(TORCH="torch>=2.4").returncode == 0
    assert project.asked() == ["torch>=2.4", "-e .[test]"]
    assert mark.exists()  # brought up to date, not made anew


def test_an_interrupted_installation_is_done_again(project: Project) -> None:
    project.run()
    (project.folder / ".venv" / "wan-testbed.key").unlink()
    assert "installed" in project.run().stdout


def test_an_old_python_is_refused_with_the_remedy(project: Project, machine: Machine) -> None:
    machine.play("old", 'case "$*" in *version_info\\[*) echo 3.9.2 ;; *) exit 1 ;; esac')
    done = project.run(PYTHON="old")
    assert done.returncode == 2
    assert "Python 3.9.2, 3.11 or later is needed" in done.stderr
    assert "make setup PYTHON=" in done.stderr


def test_no_python_is_told(project: Project) -> None:
    done = project.run(PYTHON="/no/python")
    assert done.returncode == 2
    assert "no Python at '/no/python'" in done.stderr


def test_makefile_lists_its_targets() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = run(["make", "help"], cwd=ROOT, env=environment)
    for target in ("run-experiment", "test", "check", "setup", "clean"):
        assert f"make {target}" in done.stdout
