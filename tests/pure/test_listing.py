"""The list of algorithms says what their files say, at any width."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from testbed.listing import Setting, described, in_full, json_of, listed, show
from testbed.runtime.finder import NoSuchAlgorithm, algorithm_names

FILE = '''\
"""Odd sums.

Somebody: "A paper", 2020. A first line of some length, which is
filled up again.

    worker:  w = w - lr * g
      more:  and so on
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Interval, Len

from testbed.api import Algorithm, Node


@dataclass(frozen=True)
class Base:
    must: int
    """has no default,
    so it has to be given."""


@dataclass(frozen=True)
class Hyper(Base):
    share: Annotated[float, Interval(gt=0, le=1)] = 0.5
    """a share."""
    groups: Annotated[tuple[int, ...], Len(1)] = (1, 2)
    kind: Literal["a", "b"] | None = None
    """which of them."""
    steps: Annotated[int, Ge(1)] | None = 3
    names: dict[str, float] = field(default_factory=dict)
    hidden: int = field(default=1, init=False)
    """cannot be set."""


class Odd(Algorithm[Hyper]):
    """Adds what is odd.

    And more.
    """

    Hyper = Hyper
    roles = ("monitor",)
    reference = "Somebody, A paper, 2020"

    async def monitor(self, node: Node) -> None:
        pass

    async def worker(self, node: Node) -> None:
        pass
'''


@pytest.fixture
def odd(tmp_path: Path) -> str:
    (tmp_path / "odd.py").write_text(FILE)
    return str(tmp_path / "odd.py")


def printed(listing: RenderableType, width: int) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=width).print(listing, highlight=False)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_everything_comes_from_the_file(odd: str) -> None:
    one = described([odd])[-1]
    assert (one.name, one.purpose, one.roles) == (odd, "Adds what is odd.", ("monitor", "worker"))
    assert one.reference == "Somebody, A paper, 2020"
    assert one.settings == (
        Setting("must", "int", None, True, (), "has no default, so it has to be given."),
        Setting("share", "float", 0.5, False, ("> 0", "<= 1"), "a share."),
        Setting("groups", "tuple[int, ...]", [1, 2], False, ("length >= 1",), ""),
        Setting("kind", '"a" | "b" | null', None, False, (), "which of them."),
        Setting("steps", "int | null", 3, False, (">= 1",), ""),
        Setting("names", "dict[str, float]", {}, False, (), ""),
    )


def test_no_name_is_all_of_them_and_files_come_last(odd: str) -> None:
    assert [one.name for one in described([])] == algorithm_names()
    assert [one.name for one in described([odd])] == [*algorithm_names(), odd]
    assert [one.name for one in described(["ssgd", odd])] == ["ssgd", odd]


def test_every_algorithm_of_the_project_describes_itself() -> None:
    for one in described([]):
        assert one.purpose and one.reference and one.text and "worker" in one.roles
        assert all(setting.explanation and not setting.required for setting in one.settings), one.name


def test_json_says_the_same(odd: str) -> None:
    found = described(["ssgd", odd])
    assert [one["name"] for one in json.loads(json_of(found))] == ["ssgd", odd]
    assert json.loads(json_of(found))[1]["settings"][1] == {
        "name": "share", "type": "float", "default": 0.5, "required": False, "limits": ["> 0", "<= 1"],
        "explanation": "a share.",
    }  # fmt: skip


@pytest.mark.parametrize("width", [80, 200])
def test_nothing_is_lost_at_any_width(odd: str, width: int) -> None:
    lines = printed(in_full(described([odd])), width)
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    for one in described([odd]):
        for said in (one.name, one.purpose, one.reference, *(s.name for s in one.settings)):
            assert said in words
    assert "    share = 0.5" in words or any(line.startswith("    share = 0.5 ") for line in lines)
    assert any(line.lstrip().startswith("must ") and "int, required" in line for line in lines)


def test_prose_fills_the_width_and_equations_stay(odd: str) -> None:
    lines = printed(in_full(described([odd])), 200)
    assert '  Somebody: "A paper", 2020. A first line of some length, which is filled up again.' in lines
    at = lines.index("      worker:  w = w - lr * g")
    assert lines[at + 1] == "        more:  and so on"
    assert "A first line" not in "\n".join(printed(listed(described([odd])), 200))


def test_pipes_get_plain_lines(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(listed(described([odd])), Console(width=80))
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "share = 0.5" in text


def test_a_name_that_was_meant() -> None:
    with pytest.raises(NoSuchAlgorithm, match='"fedavgg" is not an algorithm; did you mean "fedavg"'):
        described(["fedavgg"])
