"""`testbed new algorithm`: a file to start from, and its test."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import testbed
from testbed.runtime.finder import algorithm_names
from testbed.spec.faults import shown

PROJECT = Path(testbed.__file__).resolve().parents[1]
LONGEST_NAME = 30
"""characters; the lines that hold it stay within what style allows."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_CLASS = "StartingPoint"
_IMPORT = f"from testbed.templates.algorithm import Hyper, {_CLASS}\n"


class CannotStart(Exception):
    """The name or the place will not do; the message says why and what to do."""


@dataclass(frozen=True)
class Started:
    """What was written."""

    algorithm: Path
    test: Path
    entry: str
    """How an experiment file names the algorithm."""

    def advice(self) -> list[str]:
        """What there is now, and how to go on."""
        beside = " beside it" if self.entry.startswith("./") else ""
        return [
            f"wrote {self.algorithm}",
            f"wrote {self.test}",
            f"in an experiment file{beside}:  algorithms: [{self.entry}]",
            f"its test:  pytest {self.test}",
        ]


def start_algorithm(name: str, here: Path, folder: Path | None = None, project: Path = PROJECT) -> Started:
    """Write both files: into the project if `here` is inside its checkout, else into `folder` or `here`.

    CannotStart, and nothing is written, when the name will not do or a file is there already.
    """
    _refuse_name(name)
    checkout = (project / "tests" / "sim").is_dir()
    own = here.resolve().is_relative_to(project) if folder is None else folder.resolve() == project / "algorithms"
    algorithm, checks = _template("algorithm"), _template("algorithm_checks")
    kind = _class_name(name, algorithm + checks)
    if checkout and own:
        started = Started(project / "algorithms" / f"{name}.py", project / "tests" / "sim" / f"test_{name}.py", name)
        checks = _importing(checks, name, kind)
    else:
        place = here if folder is None else folder
        started = Started(place / f"{name}.py", place / f"test_{name}.py", f"./{name}.py")
        checks = _loading(checks, name)
    texts = {started.algorithm: algorithm, started.test: checks}
    _write({path: text.replace(_CLASS, kind) for path, text in texts.items()})
    return started


def _refuse_name(name: str) -> None:
    if keyword.iskeyword(name):
        raise CannotStart(f'{shown(name)} cannot name an algorithm, as it is a word of Python; take "{name}_idea"')
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        rule = f'use {LONGEST_NAME} characters or fewer: small letters, digits and "_", a letter first'
        raise CannotStart(f"{shown(name)} cannot name an algorithm; {rule}, like {_nearest_name(name)}")
    if name in algorithm_names():
        raise CannotStart(f"algorithms/{name}.py exists already; take another name")


def _nearest_name(name: str) -> str:
    """A name that will do: the words of the one given, in small letters, if that is one."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix(".py")).lower()
    found = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
    usable = _NAME.fullmatch(found) and len(found) <= LONGEST_NAME and not keyword.iskeyword(found)
    return found if usable and found not in algorithm_names() else "my_idea"


def _template(name: str) -> str:
    return files("testbed.templates").joinpath(f"{name}.py").read_text(encoding="utf-8")


def _class_name(name: str, texts: str) -> str:
    """`my_idea` as MyIdea, or as MyIdeaAlgorithm where the texts have another meaning for that word."""
    kind = "".join(part.capitalize() for part in name.split("_"))
    return f"{kind}Algorithm" if re.search(rf"\b{kind}\b", texts) else kind


def _importing(checks: str, name: str, kind: str) -> str:
    """The test of an algorithm in `algorithms/`, its imports in the order that the style asks for."""
    capitals_first = sorted(("Hyper", kind), key=lambda word: (not (word.isupper() and len(word) > 1), word))
    line = f"from algorithms.{name} import {', '.join(capitals_first)}\n"
    return checks.replace(_IMPORT, "").replace("from testbed.", f"{line}from testbed.", 1)


def _loading(checks: str, name: str) -> str:
    """The test of an algorithm beside it, which is loaded as an experiment loads it."""
    lines = (
        "from testbed.runtime.finder import algorithm_of_file\n\n"
        f'{_CLASS} = algorithm_of_file(Path(__file__).with_name("{name}.py"))\n'
        f"Hyper = {_CLASS}.Hyper\n"
    )
    numpy = "import numpy as np\n"
    return checks.replace(_IMPORT, lines).replace(numpy, f"from pathlib import Path\n\n{numpy}", 1)


def _write(texts: dict[Path, str]) -> None:
    """All of the files, or none."""
    for path in texts:
        if path.exists():
            raise CannotStart(f"{path} exists already; take another name, or another --folder")
    written: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink()
        raise CannotStart(f"{error.filename} cannot be written: {error.strerror}; take another --folder") from None
