"""What an experiment file may name. The caller says, so that no algorithm and no data is imported here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import ValidationInfo


@dataclass(frozen=True)
class KnownAlgorithm:
    """An algorithm as far as a file can be wrong about it."""

    hyper: type
    """The frozen dataclass of its hyper-parameters; limits are `typing.Annotated` ones."""
    has_server: bool = False
    """Whether it needs a network with a server."""


@dataclass(frozen=True)
class Catalogue:
    """Every name that exists."""

    algorithms: Mapping[str, KnownAlgorithm]
    data: Collection[str]
    models: Collection[str]
    partitions: Collection[str] = ("iid",)


@dataclass(frozen=True)
class Context:
    """What validators need beside the file: the known names, and the folders that hold networks by name."""

    catalogue: Catalogue
    networks: tuple[Path, ...] = ()

    @staticmethod
    def of(info: ValidationInfo) -> Context:
        """The context of a running validation."""
        return cast(Context, info.context)
