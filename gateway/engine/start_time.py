"""When an engine's process was started, by its own metrics.

Enters: the text of ``GET /metrics`` (Prometheus). Leaves: the time, which differs behind each restart, or nothing. What
an engine that hides it is to be thought of is not decided here.
"""

from __future__ import annotations

import re

_SAMPLE = re.compile(rb"^process_start_time_seconds ([0-9][0-9.e+]*)\r?$", re.MULTILINE)


def start_time(metrics: bytes) -> float | None:
    """Give the seconds of the Unix epoch; ``None`` where they are not told, as by vLLM with several API servers."""
    found = _SAMPLE.search(metrics)
    try:
        return float(found[1]) if found else None
    except ValueError:
        return None
