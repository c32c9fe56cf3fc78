"""Finding algorithms by file name, and their hyper-parameters."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import algorithms
from testbed.api import Algorithm
from testbed.spec.catalogue import Catalogue, KnownAlgorithm
from testbed.workload.datasets import DATASETS
from testbed.workload.models import MODELS
from testbed.workload.partition import PARTITIONS


class NoSuchAlgorithm(Exception):
    """No file of that name in `algorithms/`, or no algorithm in it."""


def algorithm_names() -> list[str]:
    """Every file of `algorithms/`, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(algorithms.__path__))


def find_algorithm(name: str) -> type[Algorithm[Any]]:
    """The one `Algorithm` that `algorithms/<name>.py` defines. NoSuchAlgorithm when there is not one."""
    if name not in algorithm_names():
        raise NoSuchAlgorithm(f"there is no algorithms/{name}.py")
    module = importlib.import_module(f"algorithms.{name}")
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Algorithm) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise NoSuchAlgorithm(f"algorithms/{name}.py defines {len(found)} algorithms; it should define one")
    return found[0]


def make_algorithm(name: str, hyper: dict[str, Any]) -> Algorithm[Any]:
    """An algorithm with its hyper-parameters, which were validated when the experiment file was read."""
    kind = find_algorithm(name)
    return kind(kind.Hyper(**hyper))


def catalogue() -> Catalogue:
    """Every name that an experiment file may use."""
    kinds = {name: find_algorithm(name) for name in algorithm_names()}
    known = {name: KnownAlgorithm(kind.Hyper, kind.has_server) for name, kind in kinds.items()}
    return Catalogue(known, DATASETS, MODELS, PARTITIONS)
