"""The event that answers ``stream_options.include_usage`` in the APIs of chat and completions, and streams without it.

Enters: some whole events of a stream. Leaves: those that a caller sees who did not ask for the count. Bytes are cut
between events and never changed. Only events that hold a count are looked at: where an engine is ahead of its client,
many others stand in the same piece.
"""

from __future__ import annotations

import re

import orjson

from gateway.dialects.counts import USAGE
from gateway.wire.event_stream import end_of_last_event

_NO_CHOICE = re.compile(rb'"choices":\s*\[\s*\]')
_BLANK = re.compile(rb"\n\r?\n|\r\r")


def without_usage(events: bytes) -> bytes:
    """Give the events without those that have a count and no choice."""
    begin = len(events)
    while (at := events.rfind(USAGE, 0, begin)) != -1:
        begin = end_of_last_event(events[:at])
        blank = _BLANK.search(events, at)
        end = blank.end() if blank else len(events)
        if _is_usage(events[begin:end]):
            events = events[:begin] + events[end:]
    return events


def _is_usage(event: bytes) -> bool:
    """Tell whether an event has nothing but the count."""
    try:
        value = orjson.loads(event.removeprefix(b"data:")) if _NO_CHOICE.search(event) else None
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and value.get("choices") == [] and value.get("usage") is not None
