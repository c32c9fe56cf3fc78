"""`spec.yaml` beside every result: one run, complete, in base units."""

from __future__ import annotations

from io import StringIO
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.representer import SafeRepresenter

from testbed.spec.faults import Fault, SpecError, refuse_if_any
from testbed.spec.located import parse
from testbed.spec.run import RunSpec, from_plain, to_plain

_HEAD = "# One run, frozen. Times are seconds, sizes bytes, rates bit/s; delays are one-way.\n"

_ODD_LINE_ENDS = "\x85\u2028\u2029"
"""Read back as a space unless they are escaped, which only double quotes do."""


class _Representer(SafeRepresenter):
    def text(self, value: str) -> Any:
        quotes = '"' if any(end in value for end in _ODD_LINE_ENDS) else None
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=quotes)


_Representer.add_representer(str, _Representer.text)


def write_spec_yaml(run: RunSpec) -> str:
    """The run as text. `read_spec_yaml` gives back an equal run."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = True
    yaml.width = 10_000
    text = StringIO()
    yaml.dump(to_plain(run), text)
    return _HEAD + text.getvalue()


def read_spec_yaml(text: str, file: str = "spec.yaml") -> RunSpec:
    """The run in a text; SpecError when another program or version wrote it. `file` is for messages."""
    document = parse(text, file)
    refuse_if_any(document.faults, file)
    try:
        return cast(RunSpec, from_plain(RunSpec, document.value))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        what = f"is not a run of this version ({error}); run it again in another folder."
        raise SpecError([Fault(file, 1, (), what)]) from None
