"""The event that answers ``stream_options.include_usage`` in the APIs of chat and completions, and streams without it.

Enters: some whole events of a stream. Leaves: those that a caller sees who did not ask for the count. Bytes are cut
between events and never changed.
"""

from __future__ import annotations

import json
import re

_NO_CHOICE = re.compile(rb'"choices":\s*\[\s*\]')
_BLANK = re.compile(rb"(\r\n\r\n|\n\n|\r\r)")


def without_usage(events: bytes) -> bytes:
    """Give the events without those that have a count and no choice."""
    if _NO_CHOICE.search(events) is None:
        return events
    parts = _BLANK.split(events)  # an event, the end of it, the next event, …, and what follows the last end
    kept = [part + end for part, end in zip(parts[::2], [*parts[1::2], b""], strict=True) if not _is_usage(part)]
    return b"".join(kept)


def _is_usage(event: bytes) -> bool:
    """Tell whether an event has nothing but the count."""
    try:
        value = json.loads(event.removeprefix(b"data:")) if _NO_CHOICE.search(event) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("choices") == [] and value.get("usage") is not None
