"""What a run writes, and reading it back.

For notebooks:

    from testbed.record import load_results
    results = load_results("results", "quickstart")
    results.runs          # one row per run: algorithm, seed, state, reason, degraded, path
    results.metrics       # pandas frames: metrics, spans, messages, links

Engines and the guest import this package too, so pandas and Arrow are loaded only when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.record.results import Results, load_results

__all__ = ["Results", "load_results"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from testbed.record import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
