"""Where an engine's answer says how many tokens it cost.

Enters: a whole body, or some whole events. Leaves: the objects under ``usage``, the last first. Answers are searched,
not parsed: a piece without a count costs one search.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE: Final = b'"usage":'
"""What stands before every count, in every API: where it is not, there is none."""

# A name of a member follows one of these; a quote within text follows a backslash.
_BEFORE_NAME = frozenset(b"{, \t\r\n")
_USAGE_LENGTH = len(USAGE)
_LONGEST_USAGE = 4096
_decoder = json.JSONDecoder()


def counts(data: bytes) -> Iterator[dict[str, Any]]:
    """Give each count in a piece of an answer, the last first; what is no object is passed over."""
    at = data.rfind(USAGE)
    while at != -1:
        found = count_at(data, at)
        if found is not None:
            yield found
        at = data.rfind(USAGE, 0, at)


def count_at(data: bytes, at: int) -> dict[str, Any] | None:
    """Read the object under the name that is found here; ``None`` if it is no name, or stands before none."""
    if at and data[at - 1] not in _BEFORE_NAME:
        return None
    begin = at + _USAGE_LENGTH
    text = data[begin : data.find(b"}", begin) + 1]
    if text.rfind(b"{") == 0:  # as nearly always: an object, and none in it
        try:
            flat: dict[str, Any] = orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # there is a brace in a text of it
        else:
            return flat
    try:
        value, _ = _decoder.raw_decode(data[begin : begin + _LONGEST_USAGE].decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def count(value: Any) -> int | None:  # noqa: ANN401  (any JSON value)
    """Give a number of tokens; ``None`` for what is none."""
    return value if type(value) is int and value >= 0 else None
