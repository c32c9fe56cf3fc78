"""Whether the kernel's configuration is the one that was asked for.

The kernel's own tools drop an option silently when something it depends on is missing. A guest without
netem would run, and its numbers would be wrong.
"""

from __future__ import annotations

import re

_SET = re.compile(r"^(CONFIG_\w+)=(.*)$", re.MULTILINE)


def lost_options(fragment: str, result: str) -> list[str]:
    """The options of `fragment` that the file `result` does not have or has with another value, as asked."""
    have = dict(_SET.findall(result))
    asked = dict(_SET.findall(fragment))
    return [f"{name}={value}" for name, value in asked.items() if have.get(name) != value]
