"""`testbed algorithms`: what there is to compare, with every hyper-parameter, from the algorithms' own files."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from testbed.api import Algorithm
from testbed.runtime.finder import NoSuchAlgorithm, algorithm_names, find_algorithm
from testbed.spec.catalogue import is_path
from testbed.spec.faults import unknown
from testbed.spec.hyper import probably_meant
from testbed.spec.run import AlgorithmChoice, to_plain

_LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "multiple_of": "multiple of", "min_length": "length >=",
           "max_length": "length <="}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One hyper-parameter."""

    name: str
    type: str
    default: Any
    """As an experiment file writes it; None where `required`."""
    required: bool
    limits: tuple[str, ...]
    explanation: str


@dataclass(frozen=True)
class Described:
    """An algorithm as its file describes it."""

    name: str
    """What an experiment's list of algorithms calls it."""
    purpose: str
    roles: tuple[str, ...]
    """All of them, with `worker` at the end."""
    reference: str
    settings: tuple[Setting, ...]
    text: str
    """What the file says in front."""


def described(wanted: Sequence[str]) -> list[Described]:
    """The algorithms named, and the files named; with no name every one of the project and the files.

    NoSuchAlgorithm says which name was probably meant, or what is wrong with a file.
    """
    names = [name for name in wanted if not is_path(name)]
    known = algorithm_names()
    for name in names:
        if name not in known:
            raise NoSuchAlgorithm(unknown(name, "an algorithm", known) + probably_meant(name, Path(), known))
    own = [_describe(name, AlgorithmChoice(name, name)) for name in names or known]
    return own + [_describe_file(name, known) for name in wanted if is_path(name)]


def _describe_file(name: str, known: Sequence[str]) -> Described:
    path = Path(name)
    try:
        return _describe(name, AlgorithmChoice(path.stem, path.stem, file=str(path.resolve())))
    except NoSuchAlgorithm as error:
        if meant := probably_meant(name, Path(), known):
            raise NoSuchAlgorithm(f"{error}.{meant}") from None
        raise


def _describe(name: str, choice: AlgorithmChoice) -> Described:
    kind = find_algorithm(choice)
    text = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "")
    return Described(
        name,
        (inspect.cleandoc(kind.__doc__ or text).splitlines() or [""])[0],
        (*kind.roles, "worker"),
        kind.reference,
        _settings(kind),
        text,
    )


def _settings(kind: type[Algorithm[Any]]) -> tuple[Setting, ...]:
    hyper: Any = kind.Hyper
    hints, explained = typing.get_type_hints(hyper, include_extras=True), _explanations(hyper)
    found = []
    for field in dataclasses.fields(hyper):
        if not field.init:
            continue
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        required = default is dataclasses.MISSING
        hint = hints[field.name]
        found.append(
            Setting(
                field.name, _type(hint), None if required else to_plain(default), required,
                tuple(_limits(hint)), explained.get(field.name, ""),
            )
        )  # fmt: skip
    return tuple(found)


def _explanations(hyper: type) -> dict[str, str]:
    """The text below each field of a dataclass, and of those that it is made from."""
    found: dict[str, str] = {}
    for kind in reversed(hyper.__mro__):
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if not dataclasses.is_dataclass(kind) or file is None:
            continue
        for node in ast.walk(ast.parse(Path(file).read_bytes())):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                found |= _below_fields(node)
    return found


def _below_fields(body: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            found[field.target.id] = " ".join(after.value.value.split())
    return found


def _type(hint: Any) -> str:
    """A type as a person writes it, without its limits."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (typing.Union, UnionType):
        return " | ".join(_type(kind) for kind in arguments)
    if origin is Literal:
        return " | ".join(json.dumps(value) for value in arguments)
    if hint is type(None):
        return "null"
    if hint is Ellipsis:
        return "..."
    name = getattr(origin or hint, "__name__", str(origin or hint))
    return f"{name}[{', '.join(_type(kind) for kind in arguments)}]" if arguments else name


def _limits(hint: Any) -> Iterable[str]:
    """The limits of a type, wherever in it they stand."""
    if typing.get_origin(hint) is Literal:
        return
    for inner in typing.get_args(hint)[:1] if typing.get_origin(hint) is Annotated else typing.get_args(hint):
        yield from _limits(inner)
    for limit in getattr(hint, "__metadata__", ()):
        for key, sign in _LIMITS.items():
            if (value := getattr(limit, key, None)) not in (None, 0 if key == "min_length" else None):
                yield f"{sign} {value}"


def json_of(found: Iterable[Described]) -> str:
    """Everything that the table and the full text say."""
    return json.dumps([dataclasses.asdict(one) for one in found], indent=1, ensure_ascii=False, default=str)


def listed(found: Iterable[Described]) -> RenderableType:
    """A paragraph for each algorithm."""
    return Group(*(_paragraph(one) for one in found))


def in_full(found: Iterable[Described]) -> RenderableType:
    """Each algorithm, and all that its file says in front."""
    return Group(*(Group(_paragraph(one), Padding(_prose(one.text), (0, 0, 0, 2))) for one in found))


def show(listing: RenderableType, console: Console) -> None:
    """Print it, without colours and without spaces at the ends of lines where no terminal reads it."""
    if console.is_terminal:
        console.print(listing, highlight=False)
        return
    with console.capture() as captured:
        console.print(listing, highlight=False)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _prose(text: str) -> RenderableType:
    """Paragraphs fill the width; lines that are set in, as equations are, stay lines."""
    blocks: list[RenderableType] = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if any(line.startswith(" ") for line in lines):
            set_in = [Padding(Text(line.lstrip()), (0, 0, 0, len(line) - len(line.lstrip()))) for line in lines]
            blocks.append(Padding(Group(*set_in), (0, 0, 1, 0)))
        else:
            blocks.append(Padding(Text(" ".join(lines)), (0, 0, 1, 0)))
    return Group(*blocks)


def _paragraph(one: Described) -> RenderableType:
    settings = Table.grid(padding=(0, 2, 0, 0))
    settings.add_column(overflow="fold", min_width=max((len(setting.name) for setting in one.settings), default=0))
    settings.add_column(overflow="fold")
    settings.add_column(ratio=1)
    for setting in one.settings:
        default = "" if setting.required else f" = {json.dumps(setting.default, ensure_ascii=False, default=str)}"
        kind = ", ".join([setting.type, *setting.limits, *(["required"] if setting.required else [])])
        settings.add_row(Text(f"{setting.name}{default}"), Text(kind, style="dim"), Text(setting.explanation))
    lines: list[RenderableType] = [Text(one.purpose)] if one.purpose else []
    lines.append(Text(f"roles: {', '.join(one.roles)}", style="dim"))
    if one.settings:
        lines.append(Padding(settings, (0, 0, 0, 2)))
    if one.reference:
        lines.append(Text(one.reference, style="italic dim"))
    return Group(Text(one.name, style="bold"), Padding(Group(*lines), (0, 0, 1, 2)))
