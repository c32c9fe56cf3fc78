"""What is wrong with a file, said once per fault: where, which word, which word was meant, what to write.

Every refusal ends here as one line of text. Nothing here knows what an experiment is.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

Place: TypeAlias = tuple[str | int, ...]
"""The way from a document's top to a value: keys and list positions."""


@dataclass(frozen=True)
class Fault:
    """One thing to correct."""

    file: str
    line: int | None
    """From 1; None where no line is to blame, as for a missing file."""
    place: Place
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (where, dotted(self.place), self.message) if part)


class SpecError(Exception):
    """A file cannot be used. `faults` holds everything that is wrong with it, in file order."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def refuse_if_any(faults: Iterable[Fault], file: str) -> None:
    """SpecError when there are faults, sorted by line; those of `file` before those of files it names."""
    found = sorted(dict.fromkeys(faults), key=lambda fault: (fault.file != file, fault.file, fault.line or 0))
    if found:
        raise SpecError(found)


def dotted(place: Place) -> str:
    """The place as a person writes it: `network.links[0].rate`, `algorithms[0]["./mine.py"].beta`."""
    return "".join(map(_step, place)).removeprefix(".")


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f'["{part}"]' if "." in part or "/" in part else f".{part}"


def shown(value: Any) -> str:
    """The value as the file has it, short enough for a message."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:60]}..."'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (Mapping, list, tuple)):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    return "nothing" if value is None else str(value)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, or None."""
    words = list(known)
    for candidate in words:
        if candidate.casefold() == word.casefold():
            return candidate
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return close[0] if close else None


def unknown(word: str, what: str, known: Iterable[str]) -> str:
    """A message for a word that is not among the known ones."""
    words = sorted(known)
    meant = nearest(word, words)
    guess = f'; did you mean "{meant}"?' if meant else "."
    return f"{shown(word)} is not {what}{guess} Known: {', '.join(words) or 'none'}."


def refusal(message: str, *place: str | int) -> ValidationError:
    """A fault at `place` below the value that is being validated; raise it from a validator."""
    return refusals([(place, message)])


def refusals(findings: Iterable[tuple[Place, str]]) -> ValidationError:
    """Several faults at once."""
    return ValidationError.from_exception_data("faults", [finding(place, what) for place, what in findings])


def elsewhere(error: SpecError) -> ValidationError:
    """The faults of another file that the value names; they keep their own file and lines."""
    return ValidationError.from_exception_data("faults", [finding((), str(error), error.faults)])


def below(error: ValidationError, *place: str | int) -> ValidationError:
    """The same faults, seen from `place` further up."""
    details = error.errors(include_url=False)
    return ValidationError.from_exception_data("faults", [reworded(e, place) for e in details])


def reworded(error: ErrorDetails, above: Place = ()) -> InitErrorDetails:
    """A complaint in this project's words, `above` put before its place."""
    return finding(above + tuple(error["loc"]), sentence(error), error.get("ctx", {}).get("faults", ()))


def finding(place: Place, message: str, faults: tuple[Fault, ...] = ()) -> InitErrorDetails:
    """One fault for pydantic to carry; `faults` are those of another file, ready to print."""
    # A brace in the message must stay a brace, so the message travels as a value.
    kind = PydanticCustomError("fault", "{message}", {"message": message, "faults": faults})
    return InitErrorDetails(type=kind, loc=place, input=None)


def faults_of(error: ValidationError, file: str, line_of: Callable[[Place], int]) -> list[Fault]:
    """The faults behind a refusal, with their lines in `file`."""
    found: list[Fault] = []
    for details in error.errors(include_url=False):
        ready = details.get("ctx", {}).get("faults", ())
        place = tuple(details["loc"])
        found += ready or [Fault(file, line_of(place), place, sentence(details))]
    return found


_SENTENCES: dict[str, str] = {
    "missing": "is missing.",
    "int_type": "{input} is not a whole number.",
    "int_parsing": "{input} is not a whole number.",
    "int_from_float": "{input} is not a whole number.",
    "float_type": "{input} is not a number.",
    "float_parsing": "{input} is not a number.",
    "finite_number": "{input} is not a finite number.",
    "bool_type": "{input} is neither true nor false.",
    "tuple_type": "{input} is not a list; write it like [first, second].",
    "list_type": "{input} is not a list; write it like [first, second].",
    "dict_type": "{input} is not a mapping; write it like {{name: value}}.",
    "greater_than": "{input} must be more than {gt}.",
    "greater_than_equal": "{input} must be {ge} or more.",
    "less_than": "{input} must be less than {lt}.",
    "less_than_equal": "{input} must be {le} or less.",
    "multiple_of": "{input} must be a multiple of {multiple_of}.",
    "too_short": "holds too few values: {actual_length}, not {min_length} or more.",
    "too_long": "holds too many values: {actual_length}, not {max_length} or fewer.",
}


def sentence(error: ErrorDetails) -> str:
    """A validator's complaint in this project's words."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "fault":
        return str(context["message"])
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_type":
        remedy = f'write it in quotes: "{shown(value)}"' if isinstance(value, (bool, int, float)) else "write one word"
        return f"{shown(value)} is not text; {remedy}."
    if kind in ("int_type", "float_type", "bool_type") and isinstance(value, str) and _is_scalar(value):
        return f"{shown(value)} is text; write it without quotes: {value}."
    if kind in ("literal_error", "enum"):
        known = str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        if isinstance(value, str):
            return unknown(value, "known here", known)
        return f"{shown(value)} is not known here. Known: {', '.join(sorted(known))}."
    if kind in _SENTENCES:
        limits = {name: f"{v:g}" if isinstance(v, float) else v for name, v in context.items()}
        return _SENTENCES[kind].format(input=shown(value), **limits)
    return f"{shown(value)}: {error['msg']}."


def _is_scalar(text: str) -> bool:
    return text in ("true", "false") or text.replace(".", "", 1).lstrip("+-").isdigit()
