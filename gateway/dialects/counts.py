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
_LONGEST_USAGE = 4096
_decoder = json.JSONDecoder()


def counts(data: bytes) -> Iterator[dict[str, Any]]:
    """Give each count in a piece of an answer, the last first; what is no object is passed over."""
    end = data.rfind(USAGE)
    while end != -1:
        if end == 0 or data[end - 1] in _BEFORE_NAME:
            found = _object(data[end + len(USAGE) : end + len(USAGE) + _LONGEST_USAGE])
            if found is not None:
                yield found
        end = data.rfind(USAGE, 0, end)


def count(value: Any) -> int | None:  # noqa: ANN401  (any JSON value)
    """Give a number of tokens; ``None`` for what is none."""
    return value if type(value) is int and value >= 0 else None


def _object(text: bytes) -> dict[str, Any] | None:
    end = text.find(b"}") + 1
    if text[:1] == b"{" and text.find(b"{", 1, end) == -1:  # as nearly always: no object in the object
        try:
            value = orjson.loads(text[:end])
        except orjson.JSONDecodeError:
            pass  # there is a brace in a text of it, or it is cut off
        else:
            return value if isinstance(value, dict) else None
    try:
        value, _ = _decoder.raw_decode(text.decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
