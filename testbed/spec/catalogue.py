"""What an experiment file may name. The caller says, so that no algorithm and no data is imported here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from testbed.spec.run import AlgorithmChoice

if TYPE_CHECKING:  # the guest reads this module too, and pydantic is dear there
    from pydantic import ValidationInfo


@dataclass(frozen=True)
class KnownAlgorithm:
    """An algorithm as far as a file can be wrong about it."""

    hyper: type
    """The frozen dataclass of its hyper-parameters; limits are `typing.Annotated` ones."""
    roles: tuple[str, ...] = ()
    """Roles beside `worker`. Where there is a `server`, the network needs one."""


def is_path(name: str) -> bool:
    """Whether an algorithm is named by its file, rather than by its name in `algorithms/`."""
    return name.endswith(".py") or "/" in name


def _none_from_outside(path: Path) -> KnownAlgorithm:
    raise ValueError(f"{path}: only the project's own algorithms can be used here")


@dataclass(frozen=True)
class Catalogue:
    """Every name that exists, and how an algorithm is had from a file outside the project."""

    algorithms: Mapping[str, KnownAlgorithm]
    data: Collection[str]
    models: Collection[str]
    partitions: Collection[str] = ("iid",)
    load: Callable[[Path], KnownAlgorithm] = _none_from_outside
    """What the file at an absolute path defines; ValueError says what is wrong with it and what to do."""

    def known(self, choice: AlgorithmChoice) -> KnownAlgorithm:
        """What stands behind a choice that was read from a file before."""
        return self.load(Path(choice.file)) if choice.file else self.algorithms[choice.name]


@dataclass(frozen=True)
class Context:
    """What validators need beside the file's text."""

    catalogue: Catalogue
    networks: tuple[Path, ...] = ()
    """Folders that hold networks by name."""
    folder: Path = Path()
    """Where the file lies; paths in it count from there."""

    @staticmethod
    def of(info: ValidationInfo) -> Context:
        """The context of a running validation."""
        return cast(Context, info.context)
