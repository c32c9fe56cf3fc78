"""Finding algorithms by name or by file, and making them with their hyper-parameters.

A file from outside the project is run from its text into a module of its own: nothing of it is cached on
disk, and two files of one name do not meet. Guests read this module too, so it imports little.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import sys
import traceback
import typing
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import algorithms
from testbed.api import Algorithm
from testbed.spec.catalogue import Catalogue, KnownAlgorithm
from testbed.spec.run import AlgorithmChoice, from_plain

_RESERVED = ("label", "use")
"""What an experiment file writes beside hyper-parameters."""


class NoSuchAlgorithm(ValueError):
    """There is no algorithm where one should be; the message says where, why, and what to do."""


def algorithm_names() -> list[str]:
    """Every file of `algorithms/`, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(algorithms.__path__))


def find_algorithm(choice: AlgorithmChoice) -> type[Algorithm[Any]]:
    """The one `Algorithm` that the chosen file defines. NoSuchAlgorithm when there is not one to use."""
    return algorithm_of_file(Path(choice.file)) if choice.file else _algorithm_named(choice.name)


def make_algorithm(choice: AlgorithmChoice) -> Algorithm[Any]:
    """An algorithm with its hyper-parameters, which were validated when the experiment file was read."""
    kind = find_algorithm(choice)
    return kind(from_plain(kind.Hyper, choice.hyper))


def catalogue() -> Catalogue:
    """Every name that an experiment file may use."""
    from testbed.workload.datasets import DATASETS
    from testbed.workload.models import MODELS
    from testbed.workload.partition import PARTITIONS

    known = {name: _known(_algorithm_named(name)) for name in algorithm_names()}
    return Catalogue(known, DATASETS, MODELS, PARTITIONS, lambda path: _known(algorithm_of_file(path)))


def _known(kind: type[Algorithm[Any]]) -> KnownAlgorithm:
    return KnownAlgorithm(kind.Hyper, kind.roles)


@cache
def _algorithm_named(name: str) -> type[Algorithm[Any]]:
    where = f"algorithms/{name}.py"
    if name not in algorithm_names():
        raise NoSuchAlgorithm(f"there is no {where}")
    try:
        module = importlib.import_module(f"algorithms.{name}")
    except (Exception, SystemExit) as error:
        raise _import_failed(Path(algorithms.__path__[0]) / f"{name}.py", error) from error
    return _only_algorithm(module, where)


@cache
def algorithm_of_file(path: Path) -> type[Algorithm[Any]]:
    """The one `Algorithm` in a file, which is run once in a process. NoSuchAlgorithm when it cannot be used."""
    module = ModuleType(f"algorithm:{path}")
    module.__file__ = str(path)
    code = _code(path)
    sys.modules[module.__name__] = module  # dataclasses and type hints look there for the names they need
    try:
        try:
            exec(code, module.__dict__)
        except (Exception, SystemExit) as error:
            raise _import_failed(path, error) from error
        return _only_algorithm(module, str(path))
    except BaseException:
        del sys.modules[module.__name__]
        raise


def _code(path: Path) -> Any:
    try:
        return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except FileNotFoundError:
        raise NoSuchAlgorithm(f"there is no file {path}; check the path") from None
    except IsADirectoryError:
        raise NoSuchAlgorithm(f"{path} is a folder; name a file in it") from None
    except OSError as error:
        raise NoSuchAlgorithm(f"{path} cannot be read: {error.strerror}; check the path") from None
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise NoSuchAlgorithm(f"{where}: is not Python: {error.msg}; correct that line") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NoSuchAlgorithm(f"{path}: is not Python: {error}; name a Python file") from None


def _import_failed(path: Path, error: BaseException) -> NoSuchAlgorithm:
    """What a file's own code has raised, and in which of its lines."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    lines = [line for file, line in frames if file == str(path)]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return NoSuchAlgorithm(f"{path}:{error.lineno}: is not Python: {error.msg}; correct that line")
    if isinstance(error, ModuleNotFoundError):
        return NoSuchAlgorithm(f"{where}: there is no module {error.name} to import; install it, or do without it")
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return NoSuchAlgorithm(f"{where}: importing the file fails with {said}; correct it")


def _only_algorithm(module: ModuleType, where: str) -> type[Algorithm[Any]]:
    own = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
    found = list(dict.fromkeys(kind for kind in own if issubclass(kind, Algorithm)))
    if len(found) != 1:
        names = f": {', '.join(kind.__name__ for kind in found)}" if found else ""
        raise NoSuchAlgorithm(
            f"{where}: defines {len(found) or 'no'} subclasses of testbed.api.Algorithm{names}; it should define one"
        )
    fault = _role_fault(found[0]) or _hyper_fault(found[0])
    if fault:
        raise NoSuchAlgorithm(f"{where}: {found[0].__name__}{fault}")
    return found[0]


def _role_fault(kind: type[Algorithm[Any]]) -> str:
    """What is wrong with the roles of a class, and the remedy; empty where nothing is."""
    roles: Any = kind.roles
    if not isinstance(roles, tuple) or not all(isinstance(role, str) for role in roles):
        return f'.roles is {roles!r}; write a tuple of names, like roles = ("server",)'
    if "worker" in roles:
        return '.roles names "worker", which every algorithm has; leave it out'
    if len(set(roles)) < len(roles):
        return f".roles is {roles!r}; name each role once"
    for role in ("worker", *roles):
        method = getattr(kind, role, None)
        remedy = f'write "async def {role}(self, node: Node) -> None"'
        if method is None or getattr(method, "__isabstractmethod__", False):
            return f' has no method for the role "{role}"; {remedy}'
        if not inspect.iscoroutinefunction(method):
            return f".{role} is not a coroutine; {remedy}"
        try:
            inspect.signature(method).bind(None, None)
        except TypeError:
            return f".{role} does not take the node alone; {remedy}"
    return ""


def _hyper_fault(kind: type[Algorithm[Any]]) -> str:
    """What is wrong with the hyper-parameters of a class, and the remedy; empty where nothing is."""
    hyper: Any = kind.Hyper
    made = vars(hyper).get("__dataclass_params__") if isinstance(hyper, type) else None
    if made is None:  # a subclass that is not decorated itself would lose its own fields
        return '.Hyper is not a dataclass; write "@dataclass(frozen=True)" above it'
    if not made.frozen:
        return '.Hyper is not frozen; write "@dataclass(frozen=True)" above it'
    promised = [typing.get_args(base)[0] for base in _original_bases(kind) if typing.get_origin(base) is Algorithm]
    if any(isinstance(other, type) and other is not hyper for other in promised):
        return f' is an Algorithm[{promised[0].__name__}]; write "Hyper = {promised[0].__name__}" in it too'
    for field in dataclasses.fields(hyper):
        if field.name in _RESERVED:
            return f".Hyper.{field.name}: experiment files write {field.name} for something else; rename it"
    try:
        typing.get_type_hints(hyper)
    except Exception as error:
        return f".Hyper has a type that cannot be read: {error}; import or correct it"
    return ""


def _original_bases(kind: type) -> tuple[Any, ...]:
    return tuple(vars(kind).get("__orig_bases__", ()))
