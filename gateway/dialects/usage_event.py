"""The event that answers ``stream_options.include_usage`` in the APIs of chat and completions, and streams without it.

Enters: some whole events of a stream. Leaves: those that a caller sees who did not ask for the count. Bytes are cut
between events and never changed. Only events that hold a count are looked at: where an engine is ahead of its client,
many others stand in the same piece.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from gateway.dialects.counts import USAGE
from gateway.dialects.openai_answers import COMPLETION_COUNTS, counted, usage
from gateway.wire.event_stream import end_of_last_event

if TYPE_CHECKING:
    from gateway.dialects.call import Usage

COUNT_FROM: Final = -1024
"""In so many bytes at the end of some events is the name of a count, if there is one in them.

vLLM writes the count as the last member of its event, and behind that event nothing but ``[DONE]``; where it counts in
each event, the last of them says the most.
"""

_NOTHING: Final[dict[str, Any]] = {}
_NO_CHOICE = re.compile(rb'"choices":\s*\[\s*\]')
_BLANK = re.compile(rb"\n\r?\n|\r\r")


def take_usage(events: bytes) -> tuple[Usage | None, bytes]:
    """Give the last count in these events, and them without those that have a count and no choice."""
    begin, end = _event_at(events, events.rfind(USAGE))
    event = events[begin:end]
    value = _object(event[5:]) if event.startswith(b"data:") else _NOTHING  # read once for both, as nearly always
    count = value.get("usage")
    if not isinstance(count, dict):
        return usage(events), without_usage(events)
    before = events[:begin]
    if before.find(USAGE, COUNT_FROM) != -1:
        before = without_usage(before)
    if value.get("choices") == []:
        begin = end
    return counted(count, COMPLETION_COUNTS), before + events[begin:]


def without_usage(events: bytes) -> bytes:
    """Give the events without those that have a count and no choice."""
    begin = len(events)
    while (at := events.rfind(USAGE, 0, begin)) != -1:
        begin, end = _event_at(events, at)
        if _is_usage(events[begin:end]):
            events = events[:begin] + events[end:]
    return events


def _event_at(events: bytes, at: int) -> tuple[int, int]:
    """Give where the event begins and ends in which this is."""
    blank = _BLANK.search(events, at)
    return end_of_last_event(events[:at]), blank.end() if blank else len(events)


def _is_usage(event: bytes) -> bool:
    """Tell whether an event has nothing but the count."""
    if not _NO_CHOICE.search(event):
        return False
    value = _object(b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:")))
    return value.get("choices") == [] and value.get("usage") is not None


def _object(data: bytes) -> dict[str, Any]:
    """Read an object; an empty one where there is none."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _NOTHING
    return value if isinstance(value, dict) else _NOTHING
