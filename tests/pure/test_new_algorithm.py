"""`testbed new algorithm`: what is written passes all checks and tests as it stands, or nothing is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.runtime.finder import algorithm_of_file
from testbed.starting import CannotStart, Started, start_algorithm

ROOT = Path(__file__).resolve().parents[2]


def checkout(folder: Path) -> Path:
    """A copy of the project, as far as a new algorithm touches it."""
    for package in ("testbed", "algorithms"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "sim").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def python(folder: Path, *arguments: str) -> str:
    """What a command said that must end well; it sees the project that lies in `folder`, if one does."""
    environment = {**os.environ, "PYTHONPATH": str(folder if (folder / "testbed").is_dir() else ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_inside_the_project(tmp_path: Path) -> None:
    project = checkout(tmp_path)
    started = start_algorithm("my_idea", project / "testbed", project=project)
    assert started.algorithm == project / "algorithms" / "my_idea.py"
    assert started.test == project / "tests" / "sim" / "test_my_idea.py"
    assert started.entry == "my_idea"
    # Names that sort before and after their neighbours, and the longest one there may be.
    others = [start_algorithm(name, project, project=project) for name in ("a1", "zeta", "x" * 30)]
    paths = [str(path) for one in (started, *others) for path in (one.algorithm, one.test)]
    python(project, "-m", "ruff", "check", *paths)
    python(project, "-m", "ruff", "format", "--check", *paths)
    assert "MyIdea" in python(project, "-c", "import algorithms.my_idea as m; print(m.MyIdea)")
    assert "3 passed" in python(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(started.test))


def test_elsewhere(tmp_path: Path) -> None:
    started = start_algorithm("my_idea", tmp_path)
    assert started == Started(tmp_path / "my_idea.py", tmp_path / "test_my_idea.py", "./my_idea.py")
    assert algorithm_of_file(started.algorithm).__name__ == "MyIdea"
    assert "algorithms: [./my_idea.py]" in "\n".join(started.advice())
    assert "3 passed" in python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_idea.py")


def test_a_folder_of_its_own(tmp_path: Path) -> None:
    started = start_algorithm("idea", ROOT, tmp_path / "new" / "ideas")
    assert started.algorithm == tmp_path / "new" / "ideas" / "idea.py"
    assert not (ROOT / "algorithms" / "idea.py").exists()
    python(tmp_path, "-m", "ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml"), str(tmp_path))


def test_the_folder_of_the_projects_algorithms_holds_no_tests(tmp_path: Path) -> None:
    project = checkout(tmp_path)
    started = start_algorithm("idea", tmp_path.parent, project / "algorithms", project)
    assert started.test == project / "tests" / "sim" / "test_idea.py"


@pytest.mark.parametrize("name", ["node", "algorithm", "hyper", "annotated"])
def test_a_name_that_would_hide_what_the_file_imports(tmp_path: Path, name: str) -> None:
    kind = algorithm_of_file(start_algorithm(name, tmp_path).algorithm)
    assert kind.__name__ == f"{name.capitalize()}Algorithm"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MyIdea", '"MyIdea" cannot name an algorithm; use 30 characters or fewer: small letters'),
        ("my-idea", "cannot name an algorithm"),
        ("1st", "cannot name an algorithm"),
        ("", "cannot name an algorithm"),
        ("lambda", '"lambda" cannot name an algorithm'),
        ("\u00fcber", "cannot name an algorithm"),
        ("../idea", "cannot name an algorithm"),
        ("x" * 31, "cannot name an algorithm"),
        ("fedavg", "algorithms/fedavg.py exists already; take another name"),
    ],
)
def test_names_that_will_not_do(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(CannotStart, match=words):
        start_algorithm(name, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("taken", ["idea.py", "test_idea.py"])
def test_nothing_is_written_over(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(CannotStart, match=f"{taken} exists already; take another name, or another --folder"):
        start_algorithm("idea", tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(taken, "mine")]


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="cannot be written: Not a directory; take another --folder"):
        start_algorithm("idea", tmp_path, tmp_path / "file" / "below")
    with pytest.raises(CannotStart, match="cannot be written: File exists; take another --folder"):
        start_algorithm("idea", tmp_path, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
