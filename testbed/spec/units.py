"""Quantities as people write them: "100 Mbit/s", "20 ms", "64 kB", "80 %".

They become plain numbers: bit/s, seconds, bytes, and a share of one. A number without a unit is refused,
and so is a unit of the wrong kind. `kB` is 1000 bytes, `KiB` is 1024. Arithmetic is decimal, so "10 us" is
the float nearest to 0.00001 and not a product of two rounded ones.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator

from testbed.spec.faults import nearest, shown

if TYPE_CHECKING:
    from pint import UnitRegistry

_TIMES = {"ns": "1e-9", "us": "1e-6", "ms": "1e-3", "s": "1", "min": "60", "h": "3600"}
_BITS = {"bit": "1", "kbit": "1e3", "Mbit": "1e6", "Gbit": "1e9", "Tbit": "1e12"}
_BYTES = {"B": "1", "kB": "1e3", "MB": "1e6", "GB": "1e9", "TB": "1e12"}
_BINARY = {"KiB": "1024", "MiB": "1048576", "GiB": "1073741824", "TiB": "1099511627776"}
_SPELT_OUT = {
    "second": "s", "seconds": "s", "sec": "s", "minute": "min", "minutes": "min", "hour": "h", "hours": "h",
    "millisecond": "ms", "milliseconds": "ms", "microsecond": "us", "microseconds": "us",
    "\u00b5s": "us", "\u03bcs": "us",  # the micro sign and the Greek letter
    "bits": "bit", "byte": "B", "bytes": "B",
    "bps": "bit/s", "kbps": "kbit/s", "Mbps": "Mbit/s", "Gbps": "Gbit/s", "Tbps": "Tbit/s",
}  # fmt: skip
_SIZES = [*_BITS, *_BYTES, *_BINARY, "bits", "byte", "bytes"]


@dataclass(frozen=True)
class Quantity:
    """A kind of quantity."""

    name: str
    unit: str
    """What its numbers count, for pint."""
    words: tuple[str, ...]
    """Every unit that may be written."""
    example: str
    scale: tuple[tuple[str, str], ...]
    """Units to print in and their worth, smallest first."""


RATE = Quantity(
    "rate", "bit/s",
    (*(f"{size}/s" for size in _SIZES), *(word for word in _SPELT_OUT if word.endswith("bps"))),
    "100 Mbit/s", tuple((f"{name}/s", worth) for name, worth in _BITS.items()),
)  # fmt: skip
DURATION = Quantity(
    "duration", "s",
    (*_TIMES, *(word for word, unit in _SPELT_OUT.items() if unit in _TIMES)),
    "20 ms", tuple(_TIMES.items())[:4],
)  # fmt: skip
SIZE = Quantity("size", "B", tuple(_SIZES), "64 kB", tuple(_BYTES.items()))
SHARE = Quantity("share", "", ("%", "percent"), "80 %", (("%", "0.01"),))
_KINDS = (RATE, DURATION, SIZE, SHARE)

# The exponent is short enough that no number of digits stalls the arithmetic.
_WRITTEN = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)\s*([^\d\s].*)?")


@cache
def _registry() -> UnitRegistry[Any]:
    """Pint with our units alone; its import takes half a second, so it waits for the first quantity."""
    import pint

    registry: UnitRegistry[Any] = pint.UnitRegistry(None, non_int_type=Decimal)
    registry.load_definitions(["s = [time]", "bit = [information]", "B = 8 bit", "percent = 0.01 = %"])
    for names, base in ((_TIMES, "s"), (_BITS, "bit"), (_BYTES | _BINARY, "B")):
        worths = [f"{name} = {worth} {base}" for name, worth in names.items() if name != base]
        registry.load_definitions(worths)
    registry.load_definitions([f"{word} = {unit}" for word, unit in _SPELT_OUT.items()])
    return registry


def parse(text: Any, kind: Quantity) -> float:
    """The quantity in bit/s, seconds, bytes or as a share of one; ValueError says what to write instead."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        raise ValueError(_bare(str(text), kind))
    match = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{shown(text)} is not a {kind.name}. {_like(kind)}")
    number, unit = match[1], re.sub(r"\s*/\s*", "/", match[2] or "").strip()
    if not unit:
        raise ValueError(_bare(number, kind))
    if unit not in kind.words:
        raise ValueError(_wrong_unit(text, unit, kind))
    registry = _registry()
    value = registry.Quantity(Decimal(number), registry.parse_units(unit)).to(kind.unit).magnitude
    return _checked(text, Decimal(value), kind)


def written(value: float, kind: Quantity) -> str:
    """The quantity as a person writes it. `parse` gives back the very same number."""
    exact = Decimal(repr(value))
    unit, worth = kind.scale[0]
    for larger, its_worth in kind.scale[1:]:
        if exact >= Decimal(its_worth):
            unit, worth = larger, its_worth
    number = (exact / Decimal(worth)).normalize()
    return f"{number:f} {unit}" if -12 < number.adjusted() < 18 else f"{number} {unit}"


def _checked(text: str, value: Decimal, kind: Quantity) -> float:
    number = float(value)
    if number < 0:
        raise ValueError(f"{shown(text)} is negative. {_like(kind)}")
    if not math.isfinite(number):
        raise ValueError(f"{shown(text)} is too large for a {kind.name}. {_like(kind)}")
    if kind is RATE and number == 0:
        raise ValueError(f"{shown(text)} carries nothing; a rate must be more than 0. {_like(kind)}")
    if kind is SHARE and number > 1:
        raise ValueError(f"{shown(text)} is more than the whole; write 0 % to 100 %.")
    if kind is SIZE:
        if value != value.to_integral_value():
            raise ValueError(f"{shown(text)} is not a whole number of bytes. {_like(kind)}")
        return int(value)
    return number


def _like(kind: Quantity) -> str:
    return f'Write it like "{kind.example}".'


def _bare(number: str, kind: Quantity) -> str:
    if kind is SHARE and re.fullmatch(r"0?\.\d+", number):
        percent = (Decimal(number) * 100).normalize()
        return f'{number} has no unit. Write "{percent:f} %" for that share of one, or "{number} %".'
    return f"{number} has no unit, so it is not a {kind.name}. {_like(kind)}"


def _wrong_unit(text: str, unit: str, kind: Quantity) -> str:
    for other in _KINDS:
        if unit in other.words:
            return f"{shown(text)} is a {other.name}, not a {kind.name}. {_like(kind)}"
    # "Mb/s" means bits to those who write it, though "MB/s" looks nearer.
    meant = nearest(re.sub(r"^([kMGT]?)b(?=/s$)", r"\1bit", unit), kind.words)
    guess = f'; did you mean "{meant}"?' if meant else "."
    return f"{shown(text)} is not a {kind.name}{guess} {_like(kind)}"


def _rate(text: Any) -> float:
    return parse(text, RATE)


def _duration(text: Any) -> float:
    return parse(text, DURATION)


def _size(text: Any) -> int:
    return int(parse(text, SIZE))


def _share(text: Any) -> float:
    return parse(text, SHARE)


Rate = Annotated[float, PlainValidator(_rate)]
"""bit/s, more than 0."""
Duration = Annotated[float, PlainValidator(_duration)]
"""seconds, 0 or more."""
Size = Annotated[int, PlainValidator(_size)]
"""bytes."""
Percent = Annotated[float, PlainValidator(_share)]
"""a share of one, 0 to 1."""
