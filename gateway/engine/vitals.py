"""What an engine's own metrics tell of its process: when it was started, and whether it sleeps.

Enters: the text of ``GET /metrics`` (Prometheus, names of vLLM 0.32). Leaves: ``Vitals``. What an engine that hides
them is to be thought of is not decided here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_STARTED = re.compile(rb"^process_start_time_seconds ([0-9][0-9.e+]*)\r?$", re.MULTILINE)
_ASLEEP = re.compile(rb'^vllm:engine_sleep_state\{[^}]*sleep_state="awake"[^}]*\} 0(?:\.0*)?\r?$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Vitals:
    """What is known of a process.

    ``started``: seconds of the Unix epoch, other ones behind each restart; ``None`` where that is not told, as by vLLM
    with several API servers. ``asleep``: it says that it does not schedule requests.
    """

    started: float | None = None
    asleep: bool = False


UNKNOWN = Vitals()


def read_vitals(metrics: bytes) -> Vitals:
    """Read them; whatever is not told is not known."""
    found = _STARTED.search(metrics)
    try:
        started = float(found[1]) if found else None
    except ValueError:
        started = None
    return Vitals(started, _ASLEEP.search(metrics) is not None)
