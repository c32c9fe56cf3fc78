"""Quantities with units become plain numbers, exactly, or are refused with the right word."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.spec.units import DURATION, RATE, SHARE, SIZE, Quantity, parse, written

UNHURRIED = settings(deadline=None)
"""The first quantity waits for pint's import, and a machine may be busy."""


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("100 Mbit/s", RATE, 100e6),
        ("2.5 Gbit/s", RATE, 2.5e9),
        ("100Mbit / s", RATE, 100e6),
        ("10 Mbps", RATE, 10e6),
        ("1 MB/s", RATE, 8 * 1000 * 1000),
        ("20 ms", DURATION, 0.02),
        ("10 us", DURATION, 0.00001),
        ("10 \u00b5s", DURATION, 0.00001),
        ("10 \u03bcs", DURATION, 0.00001),
        ("2 min", DURATION, 2 * 60),
        ("1.5 hours", DURATION, 5400),
        ("0 ms", DURATION, 0),
        ("64 kB", SIZE, 64 * 1000),
        ("64 KiB", SIZE, 64 * 1024),
        ("44.7 MB", SIZE, 44_700_000),
        ("16 kbit", SIZE, 16_000 // 8),
        ("80 %", SHARE, 0.8),
        ("0.1%", SHARE, 0.001),
        ("100 %", SHARE, 1),
    ],
)
def test_meaning(text: str, kind: Quantity, value: float) -> None:
    assert parse(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("100 Mbt/s", RATE, '"100 Mbt/s" is not a rate; did you mean "Mbit/s"? Write it like "100 Mbit/s".'),
        (
            "100 mbit/s",
            RATE,
            '"100 mbit/s" is not a rate; did you mean "Mbit/s"? Write it like "100 Mbit/s".',
        ),
        ("100 Mb/s", RATE, '"100 Mb/s" is not a rate; did you mean "Mbit/s"? Write it like "100 Mbit/s".'),
        ("20 MS", DURATION, '"20 MS" is not a duration; did you mean "ms"? Write it like "20 ms".'),
        ("64 KB", SIZE, '"64 KB" is not a size; did you mean "kB"? Write it like "64 kB".'),
        ("5 parsecs", RATE, '"5 parsecs" is not a rate. Write it like "100 Mbit/s".'),
        (100, RATE, '100 has no unit, so it is not a rate. Write it like "100 Mbit/s".'),
        ("100", DURATION, '100 has no unit, so it is not a duration. Write it like "20 ms".'),
        (math.nan, DURATION, 'nan has no unit, so it is not a duration. Write it like "20 ms".'),
        (0.8, SHARE, '0.8 has no unit. Write "80 %" for that share of one, or "0.8 %".'),
        ("20 ms", RATE, '"20 ms" is a duration, not a rate. Write it like "100 Mbit/s".'),
        ("100 Mbit", RATE, '"100 Mbit" is a size, not a rate. Write it like "100 Mbit/s".'),
        ("10 Mbit/s", DURATION, '"10 Mbit/s" is a rate, not a duration. Write it like "20 ms".'),
        ("5 %", SIZE, '"5 %" is a share, not a size. Write it like "64 kB".'),
        ("-5 ms", DURATION, '"-5 ms" is negative. Write it like "20 ms".'),
        ("0 bit/s", RATE, "must be more than 0"),
        ("101 %", SHARE, "more than the whole"),
        ("3 bit", SIZE, "not a whole number of bytes"),
        ("1e999 s", DURATION, "too large"),
        ("nan ms", DURATION, "is not a duration"),
        ("inf s", DURATION, "is not a duration"),
        ("ms", DURATION, "is not a duration"),
        ("2 s**2", DURATION, "is not a duration"),
        (True, RATE, "true is not a rate"),
        (["1 s"], DURATION, "a list is not a duration"),
        (None, SIZE, "nothing is not a size"),
    ],
)
def test_refusals_name_the_word_and_the_remedy(text: object, kind: Quantity, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse(text, kind)
    assert message in str(refused.value)


POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False)


@UNHURRIED
@given(POSITIVE)
def test_a_rate_survives_writing(value: float) -> None:
    assert parse(written(value, RATE), RATE) == value


@UNHURRIED
@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_a_duration_survives_writing(value: float) -> None:
    assert parse(written(value, DURATION), DURATION) == value


@UNHURRIED
@given(st.integers(min_value=0, max_value=10**15))
def test_a_size_survives_writing(value: int) -> None:
    assert parse(written(value, SIZE), SIZE) == value


@UNHURRIED
@given(st.floats(min_value=0, max_value=1))
def test_a_share_survives_writing(value: float) -> None:
    assert parse(written(value, SHARE), SHARE) == value


@UNHURRIED
@given(st.integers(min_value=1, max_value=10**6))
def test_a_thousand_of_one_unit_is_one_of_the_next(number: int) -> None:
    assert parse(f"{number * 1000} kbit/s", RATE) == parse(f"{number} Mbit/s", RATE)
    assert parse(f"{number * 1000} us", DURATION) == parse(f"{number} ms", DURATION)
    assert parse(f"{number} kB/s", RATE) == parse(f"{8 * number} kbit/s", RATE)
    assert parse(f"{number} KiB", SIZE) == 1024 * number


@UNHURRIED
@given(st.text(max_size=30))
def test_any_text_is_a_number_or_a_refusal(text: str) -> None:
    for kind in (RATE, DURATION, SIZE, SHARE):
        try:
            value = parse(text, kind)
        except ValueError:
            continue
        assert value >= 0 and math.isfinite(value)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [(1e8, RATE, "100 Mbit/s"), (0.02, DURATION, "20 ms"), (120, DURATION, "120 s"), (64000, SIZE, "64 kB"),
     (0.8, SHARE, "80 %"), (0, DURATION, "0 ns")],
)  # fmt: skip
def test_writing(value: float, kind: Quantity, text: str) -> None:
    assert written(value, kind) == text
