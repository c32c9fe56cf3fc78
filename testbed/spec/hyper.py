"""The list of algorithms in a file, with hyper-parameters held against what each algorithm declares."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
import types
import typing
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PydanticUserError, ValidationError, create_model
from pydantic_core import InitErrorDetails

from testbed.spec.catalogue import Context, KnownAlgorithm, is_path
from testbed.spec.faults import Place, below, finding, nearest, refusal, reworded, shown, unknown
from testbed.spec.run import AlgorithmChoice, to_plain
from testbed.spec.section import Section

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Labels and experiment names become folders."""
LABEL_RULE = 'use letters, digits, ".", "_" and "-", 64 at most, and no "." or "-" in front.'
_LISTS = (tuple, set, frozenset)
_SHAPE = 'write a name, or a name with its settings, like "fedavg: {local_steps: 10}".'


def choices(value: Any, context: Context) -> tuple[AlgorithmChoice, ...]:
    """The algorithms of a file in its order; a pydantic refusal holds all that is wrong with them."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ValueError(f'{shown(value)} is not a list of algorithms; write it like "[ssgd, fedavg]".')
    chosen: list[AlgorithmChoice] = []
    errors: list[InitErrorDetails] = []
    for number, entry in enumerate(value):
        try:
            choice = _choice(entry, context)
            if any(choice.label == other.label for other in chosen):
                raise refusal(_twice(choice))
            chosen.append(choice)
        except ValidationError as error:
            errors += [reworded(e, (number,)) for e in error.errors(include_url=False)]
    if errors:
        raise ValidationError.from_exception_data("algorithms", errors)
    return tuple(chosen)


def _choice(entry: Any, context: Context) -> AlgorithmChoice:
    place: Place
    if isinstance(entry, str):
        name, settings, place = entry, {}, ()
    elif isinstance(entry, dict) and "use" in entry:
        name, settings, place = entry["use"], {k: v for k, v in entry.items() if k != "use"}, ()
    elif isinstance(entry, dict) and len(entry) == 1:
        ((name, inner),) = entry.items()
        settings, place = {} if inner is None else inner, (name,)
    else:
        raise refusal(f"{shown(entry)} is not an algorithm; {_SHAPE}")
    try:
        if not isinstance(name, str):
            raise refusal(unknown(str(name), "an algorithm", context.catalogue.algorithms))
        bare, known = _meant(name, context)
        if not isinstance(settings, dict):
            raise refusal(f"{shown(settings)} is not a mapping of settings; {_SHAPE}")
        return _labelled(bare, dict(settings), known)
    except ValidationError as error:
        raise below(error, *place) from None


def _meant(name: str, context: Context) -> tuple[AlgorithmChoice, KnownAlgorithm]:
    """The algorithm of a name or a path, without its settings."""
    algorithms = context.catalogue.algorithms
    if not is_path(name):
        if name not in algorithms:
            raise refusal(unknown(name, "an algorithm", algorithms) + probably_meant(name, context.folder, algorithms))
        return AlgorithmChoice(name, name), algorithms[name]
    stem = Path(name).stem
    try:
        file = (context.folder / name).resolve()
        return AlgorithmChoice(stem, stem, file=str(file)), context.catalogue.load(file)
    except (ValueError, OSError, RuntimeError) as error:  # the last two: no path at all, or links in a circle
        raise refusal(f"{error}.{probably_meant(name, context.folder, algorithms)}") from None


def probably_meant(name: str, folder: Path, algorithms: Collection[str]) -> str:
    """What else a name or a path that will not do could be: a sentence with a space in front, or nothing.

    `folder` is where paths count from.
    """
    stem = Path(name).stem
    if is_path(name) and stem in algorithms:
        return f' The algorithm of the project is written "{stem}".'
    written = name if is_path(name) else f"./{name}"
    with suppress(OSError, ValueError):  # what cannot be a path is no file
        if (folder / f"{written}.py").is_file():
            return f' The file is written "{written}.py".'
        if is_path(name) and not (folder / name).exists():
            beside = nearest(stem, sorted(other.stem for other in (folder / name).parent.glob("*.py")))
            return f' Did you mean "{Path(name).with_name(f"{beside}.py")}"?' if beside else ""
    return ""


def _labelled(bare: AlgorithmChoice, settings: dict[str, Any], known: KnownAlgorithm) -> AlgorithmChoice:
    errors: list[InitErrorDetails] = []
    written = "label" in settings
    label = settings.pop("label", bare.name)
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        rule = LABEL_RULE if written else f"give the file a label, like {{use: {bare.file}, label: mine}}."
        errors.append(finding(("label",) if written else (), f"{shown(label)} cannot name a folder; {rule}"))
    given: dict[str, Any] = {}
    try:
        given = given_hyper(known.hyper, settings)
    except ValidationError as error:
        errors += [reworded(e) for e in error.errors(include_url=False)]
    if errors:
        raise ValidationError.from_exception_data(bare.name, errors)
    return dataclasses.replace(bare, label=label, hyper=given)


def given_hyper(hyper: type, settings: dict[str, Any]) -> dict[str, Any]:
    """`settings` as plain values of the types that the dataclass `hyper` declares; defaults are left out.

    A pydantic refusal names each unknown key, wrong type and passed limit, and what `__post_init__` says.
    """
    try:
        model = _model(hyper)
    except (PydanticUserError, NameError, TypeError, RuntimeError) as error:
        what = str(error).splitlines()[0]
        message = f"its {hyper.__name__} has a type that no file can write ({what}); use numbers, words, lists."
        raise refusal(message) from None
    section = model.model_validate(settings)
    values = {name: getattr(section, name) for name in model.model_fields if name in section.model_fields_set}
    try:
        hyper(**values)
    except Exception as error:  # whatever __post_init__ raises
        raise refusal(f"{error or type(error).__name__}.") from None
    return dict(to_plain(values))


class _HyperSection(Section):
    null_is_a_value = True
    key_is = "a hyper-parameter"


@functools.cache
def _model(hyper: type) -> type[_HyperSection]:
    """A section with the fields of the dataclass."""
    hints = typing.get_type_hints(hyper, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(hyper):
        if not field.init:
            continue
        kind = _as_written(hints[field.name])
        if field.default_factory is not dataclasses.MISSING:
            fields[field.name] = (kind, Field(default_factory=field.default_factory))
        else:
            fields[field.name] = (kind, ... if field.default is dataclasses.MISSING else field.default)
    return create_model("Hyper", __base__=_HyperSection, **fields)


def _as_written(hint: Any) -> Any:
    """The type, every collection in it taken from what YAML knows, which is a list."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return Annotated[_as_written(arguments[0]), *arguments[1:]]
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, map(_as_written, arguments))
    if arguments and origin in (*_LISTS, list, dict):
        hint = origin[tuple(map(_as_written, arguments))]
    return Annotated[hint, Field(strict=False)] if (origin or hint) in _LISTS else hint


def _twice(choice: AlgorithmChoice) -> str:
    remedy = f"{{use: {choice.file or choice.name}, label: {choice.name}-2}}"
    return f'the label "{choice.label}" is taken by an entry above; give one of them another, like {remedy}.'
