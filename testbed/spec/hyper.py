"""The list of algorithms in a file, with hyper-parameters held against what each algorithm declares."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from functools import cache
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model
from pydantic_core import InitErrorDetails

from testbed.spec.catalogue import Catalogue
from testbed.spec.faults import Place, below, finding, refusal, reworded, shown, unknown
from testbed.spec.run import AlgorithmChoice
from testbed.spec.section import Section

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Labels and experiment names become folders."""
LABEL_RULE = 'use letters, digits, ".", "_" and "-", 64 at most, and no "." or "-" in front.'
_SHAPE = 'write a name, or a name with its settings, like "fedavg: {local_steps: 10}".'


def choices(value: Any, catalogue: Catalogue) -> tuple[AlgorithmChoice, ...]:
    """The algorithms of a file in its order; a pydantic refusal holds all that is wrong with them."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ValueError(f'{shown(value)} is not a list of algorithms; write it like "[ssgd, fedavg]".')
    chosen: list[AlgorithmChoice] = []
    errors: list[InitErrorDetails] = []
    for number, entry in enumerate(value):
        try:
            choice = _choice(entry, catalogue)
            if any(choice.label == other.label for other in chosen):
                raise refusal(_twice(choice))
            chosen.append(choice)
        except ValidationError as error:
            errors += [reworded(e, (number,)) for e in error.errors(include_url=False)]
    if errors:
        raise ValidationError.from_exception_data("algorithms", errors)
    return tuple(chosen)


def _choice(entry: Any, catalogue: Catalogue) -> AlgorithmChoice:
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
    if not isinstance(name, str) or name not in catalogue.algorithms:
        raise refusal(unknown(str(name), "an algorithm", catalogue.algorithms), *place)
    if not isinstance(settings, dict):
        raise refusal(f"{shown(settings)} is not a mapping of settings; {_SHAPE}", *place)
    try:
        return _labelled(name, dict(settings), catalogue.algorithms[name].hyper)
    except ValidationError as error:
        raise below(error, *place) from None


def _labelled(name: str, settings: dict[str, Any], hyper: type) -> AlgorithmChoice:
    errors: list[InitErrorDetails] = []
    label = settings.pop("label", name)
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        errors.append(finding(("label",), f"{shown(label)} cannot name a folder; {LABEL_RULE}"))
    try:
        given = given_hyper(hyper, settings)
    except ValidationError as error:
        errors += [reworded(e) for e in error.errors(include_url=False)]
    if errors:
        raise ValidationError.from_exception_data(name, errors)
    return AlgorithmChoice(name, label, given)


def given_hyper(hyper: type, settings: dict[str, Any]) -> dict[str, Any]:
    """`settings` as plain values of the types that the dataclass `hyper` declares; defaults are left out.

    A pydantic refusal names each unknown key, wrong type and passed limit, and what `__post_init__` says.
    """
    section = _model(hyper).model_validate(settings)
    try:
        hyper(**{name: getattr(section, name) for name in section.model_fields_set})
    except (TypeError, ValueError, ArithmeticError) as error:
        raise refusal(f"{error}.") from None
    return section.model_dump(mode="json", exclude_unset=True)


class _HyperSection(Section):
    null_is_a_value = True
    key_is = "a hyper-parameter"


@cache
def _model(hyper: type) -> type[_HyperSection]:
    """A section with the fields of the dataclass."""
    hints = typing.get_type_hints(hyper, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(hyper):
        if not field.init:
            continue
        kind = hints[field.name]
        if _is_list(kind):
            kind = Annotated[kind, Field(strict=False)]
        if field.default_factory is not dataclasses.MISSING:
            fields[field.name] = (kind, Field(default_factory=field.default_factory))
        else:
            fields[field.name] = (kind, ... if field.default is dataclasses.MISSING else field.default)
    return create_model("Hyper", __base__=_HyperSection, **fields)


def _is_list(hint: Any) -> bool:
    """Whether YAML writes the type as a list though it is another class."""
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_list(kind) for kind in typing.get_args(hint))
    return (typing.get_origin(hint) or hint) in (tuple, set, frozenset)


def _twice(choice: AlgorithmChoice) -> str:
    remedy = f"{{use: {choice.name}, label: {choice.name}-2}}"
    return f'the label "{choice.label}" is taken by an entry above; give one of them another, like {remedy}.'
