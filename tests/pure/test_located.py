"""YAML with lines: what is read, where it stands, and what is refused."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.spec.faults import SpecError
from testbed.spec.located import parse, read

UNHURRIED = settings(deadline=None)
"""The first quantity waits for pint's import, and a machine may be busy."""


def test_words_and_numbers_are_those_of_yaml_1_2() -> None:
    document = parse("a: no\nb: on\nc: 010\nd: 0x1f\ne: 1e3\nf: true\ng:\nh: 2024-01-01\ni: 1..3\n7: ~\n", "x")
    assert document.value == {
        "a": "no", "b": "on", "c": 10, "d": 31, "e": 1000.0, "f": True, "g": None,
        "h": "2024-01-01", "i": "1..3", "7": None,
    }  # fmt: skip
    assert document.faults == ()


def test_every_key_and_value_has_its_line() -> None:
    document = parse("a:\n  - x: 1\n\n  - y:\n      2\nb: {c: 3}\n", "x")
    assert document.keys == {("a",): 1, ("a", 0, "x"): 2, ("a", 1, "y"): 4, ("b",): 6, ("b", "c"): 6}
    assert document.values[("a", 1, "y")] == 5
    assert document.line(("a",)) == 1
    assert document.line(("a", 1, "y")) == 5
    assert document.line(("a", 1, "absent", 3)) == 4


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a:\n\tb: 1\n", 2, "a tab stands where only spaces may"),
        ("x: 1\na: b: c\n", 2, "mapping values are not allowed"),
        ("x: 1\na: 'open\n", 2, "is not YAML"),
        ("a: [1\nb: 2\n", 2, "expected ',' or ']'"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("a: *nope\n", 1, "undefined alias 'nope'"),
        ("a: &x [*x]\n", 1, "an alias contains itself"),
        ("a: 1\nb: \x07\n", 2, "is not allowed"),
    ],
)
def test_what_is_not_yaml(text: str, line: int, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(text, "dir/x.yaml")
    assert str(refused.value).startswith(f"dir/x.yaml:{line}: ")
    assert words in str(refused.value)


def test_depth_and_aliases_cannot_exhaust_the_reader() -> None:
    with pytest.raises(SpecError, match="nested too deeply"):
        parse("[" * 1000, "x")
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(SpecError, match="too many values"):
        parse("\n".join(rows), "x")


def test_faults_that_leave_the_rest_readable() -> None:
    document = parse("a: 1\nb: !thing 2\na: 3\n? [1]\n: 2\n<<: {c: 1}\nd: 4\n", "x")
    assert [str(fault) for fault in document.faults] == [
        "x:2: b: tag !thing is not known here; remove it.",
        'x:3: a: "a" stands here a second time, after line 1; keep one.',
        "x:4: a list or mapping cannot be a key; write a name.",
        'x:6: "<<" does not merge here; write the values out, or use an alias.',
    ]
    assert document.value["d"] == 4


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: caf\xe9\n")
    os.mkfifo(tmp_path / "pipe.yaml")
    for path, words in [
        (tmp_path, "is a folder"),
        (tmp_path / "absent.yaml", "there is no such file"),
        (tmp_path / "pipe.yaml", "is not a text file"),
        (latin, f"{latin}:2: byte 0xe9 is not UTF-8"),
    ]:
        with pytest.raises(SpecError) as refused:
            read(path)
        assert words in str(refused.value)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes("\ufeffa: 1\n".encode())
    assert read(path).value == {"a": 1}


@UNHURRIED
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_a_document_or_a_refusal(text: str) -> None:
    try:
        parse(text, "x")
    except SpecError as error:
        assert str(error).startswith("x")
