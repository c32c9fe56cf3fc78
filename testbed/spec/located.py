"""YAML that remembers where everything stands.

YAML 1.2: `no` and `on` are words, `010` is ten. Keys are text, whatever they look like. Only plain values
come out (dict, list, str, int, float, bool, None); a tag that would build anything else is a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from testbed.spec.faults import Fault, Place, SpecError

_LARGEST = 10_000_000
"""bytes of a file; a folder of results named by mistake should not fill the memory."""
_MOST_VALUES = 200_000
"""values of a document once its aliases are followed; a few nested ones can stand for billions."""
_TAGS = {"map", "seq", "str", "int", "float", "bool", "null", "timestamp"}


@dataclass(frozen=True)
class Document:
    """A file's content and its lines, counted from 1."""

    file: str
    value: Any
    keys: dict[Place, int] = field(default_factory=dict)
    """Where the key of each mapping entry stands."""
    values: dict[Place, int] = field(default_factory=dict)
    """Where each value begins."""
    faults: tuple[Fault, ...] = ()
    """What is wrong with the YAML though it can be read: keys written twice, unknown tags."""

    def line(self, place: Place) -> int:
        """The line that a message about `place` should name; the nearest one above for what is absent.

        A mapping, a list or nothing at all counts from its key, a plain value from itself.
        """
        while place and place not in self.values:
            place = place[:-1]
        value = self.value
        for part in place:
            value = value[part]
        here = self.values.get(place, 1)
        return self.keys.get(place, here) if value is None or isinstance(value, (dict, list)) else here


def read(path: Path) -> Document:
    """A file's document; SpecError when there is none to read."""
    try:
        if path.is_dir():
            raise _refused(path, None, "is a folder; name a YAML file in it.")
        if not path.exists():
            raise _refused(path, None, "there is no such file; check the path.")
        if not path.is_file() or path.stat().st_size > _LARGEST:
            raise _refused(path, None, "is not a text file of a sensible size; name a YAML file.")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(path, None, f"cannot be read: {reason}.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        what = f"byte {raw[error.start]:#04x} is not UTF-8; save the file as UTF-8."
        raise _refused(path, line, what) from None
    return parse(text, str(path))


def parse(text: str, file: str) -> Document:
    """The document of a text; SpecError when it is not YAML. `file` is what messages call it."""
    try:
        node = YAML(typ="safe", pure=True).compose(text)
        builder = _Builder(file)
        value = None if node is None else builder.build(node, ())
    except RecursionError:
        raise _refused(file, None, "is nested too deeply; write it flat.") from None
    except ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise _refused(file, line, f"character {error.character!r} is not allowed; remove it.") from None
    except MarkedYAMLError as error:
        raise _syntax(text, file, error) from None
    except (YAMLError, ValueError) as error:
        raise _refused(file, None, f"is not YAML: {error}.") from None
    return Document(file, value, builder.keys, builder.values, tuple(builder.faults))


def _refused(file: Path | str, line: int | None, message: str) -> SpecError:
    return SpecError([Fault(str(file), line, (), message)])


def _syntax(text: str, file: str, error: MarkedYAMLError) -> SpecError:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines() or [""]
    if mark and mark.line >= len(lines) and error.context_mark:
        mark = error.context_mark  # what was opened and never closed says more than the file's end
    line = min(mark.line + 1 if mark else 1, len(lines))
    at = lines[line - 1]
    indent = at[: len(at) - len(at.lstrip())]
    if "\t" in indent or "\\t" in str(error.problem):
        return _refused(file, line, "a tab stands where only spaces may; replace it by spaces.")
    problem = " ".join(str(error.problem or error.context).split())
    if "mapping values are not allowed" in problem:
        problem += " (a second colon, or an indentation that differs from the line above)"
    return _refused(file, line, f"is not YAML: {problem}. The line reads: {at.strip()}")


class _Builder:
    """Turns ruamel's nodes into plain values and notes their lines."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.keys: dict[Place, int] = {}
        self.values: dict[Place, int] = {}
        self.faults: list[Fault] = []
        self._open: set[int] = set()

    def build(self, node: Node, place: Place) -> Any:
        self.values[place] = node.start_mark.line + 1
        if len(self.values) > _MOST_VALUES:
            raise _refused(self.file, self.values[place], "holds too many values; write fewer aliases.")
        if id(node) in self._open:
            raise _refused(self.file, self.values[place], "an alias contains itself; write the values out.")
        if str(node.tag).removeprefix("tag:yaml.org,2002:") not in _TAGS:
            self._fault(self.values[place], place, f"tag {node.tag} is not known here; remove it.")
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, place)
            if isinstance(node, SequenceNode):
                return [self.build(item, (*place, number)) for number, item in enumerate(node.value)]
            return self._scalar(node, place)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._fault(line, place, "a list or mapping cannot be a key; write a name.")
                continue
            key = str(key_node.value)
            if str(key_node.tag).endswith(":merge"):
                self._fault(line, place, '"<<" does not merge here; write the values out, or use an alias.')
                continue
            if key in result:
                first = self.keys[(*place, key)]
                again = f'"{key}" stands here a second time, after line {first}; keep one.'
                self._fault(line, (*place, key), again)
                continue
            self.keys[(*place, key)] = line
            result[key] = self.build(value_node, (*place, key))
        return result

    def _scalar(self, node: Node, place: Place) -> Any:
        text, tag = str(node.value), str(node.tag).rpartition(":")[2]
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            if tag == "int":
                return _whole(text)
            if tag == "float":
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            self._fault(self.values[place], place, f"{text[:60]} is not a usable number; correct it.")
        return text

    def _fault(self, line: int, place: Place, message: str) -> None:
        self.faults.append(Fault(self.file, line, place, message))


def _whole(text: str) -> int:
    digits = text.replace("_", "")
    return int(digits, 0) if digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(digits, 10)
