"""The newest API of OpenAI as vLLM serves it, without state: ``POST /v1/responses``.

Nothing is kept for a caller: ``store`` is always sent as false, and what names a kept answer is refused. The events of
its streams have names; the last one bears the whole answer with its count of tokens, and no ``[DONE]`` follows.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gateway.dialects import openai_answers
from gateway.dialects.fields import load
from gateway.dialects.openai_answers import RESPONSE_COUNTS
from gateway.dialects.openai_body import OpenAIBody
from gateway.dialects.thinking_controls import ThinkingControls

if TYPE_CHECKING:
    from gateway.dialects.call import Usage
    from gateway.reasons import Reason

RESPONSES = load("openai_responses")
RESPONSES_CONTROLS = ThinkingControls(templated=True, effort="reasoning.effort")

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
# Within text a quote follows a backslash, so this finds values alone; which of them is the event's type is read then.
_NAMED = re.compile(rb'"response\.(?:completed|incomplete|failed)"')
# An event that is too long to be held comes in pieces. vLLM writes its type last.
_CLOSING = re.compile(rb'"type": ?"response\.(?:completed|incomplete|failed)"\}$')
# Event streams of HTML §9.2.6: lines end in CRLF, LF or CR, events in an empty line.
_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_ENDS = (b"\r\n\r\n", b"\n\n", b"\r\r")


class OpenAIResponses(OpenAIBody):
    """Responses, streamed or not."""

    name: str = "openai-responses"
    upstream: tuple[str, str] | None = ("POST", "/v1/responses")
    delta: bytes = b'.delta"'  # the end of the types of all events that bear a piece of the answer

    def usage(self, data: bytes) -> Usage | None:  # type: ignore[override]  # the others share a plain function
        """Find the count in a body, or in the last event: the first ones repeat what the caller wrote."""
        if not data.endswith(_ENDS):
            return openai_answers.usage(data, RESPONSE_COUNTS)
        event = _last(data)
        answer = (_parsed(event) or {}).get("response")
        if isinstance(answer, dict):
            count = answer.get("usage")
            return openai_answers.counted(count, RESPONSE_COUNTS) if isinstance(count, dict) else None
        return openai_answers.usage(event, RESPONSE_COUNTS) if _is_rest(event) else None

    def ends(self, events: bytes) -> bool:
        """Tell whether the event with the whole answer is the last of these."""
        event = _last(events)
        return _parsed(event) is not None or _is_rest(event)

    def error_event(self, reason: Reason, message: str, request_id: str) -> bytes:  # noqa: ARG002  (the port's)
        """Give the event that ends a stream that failed after its head."""
        return openai_answers.response_error_event(reason, message)


def _last(events: bytes) -> bytes:
    """Give the last event, or what there is of it; nothing if none of these can be the one with the whole answer."""
    if _NAMED.search(events) is None:
        return b""
    return _BLANK.split(events.rstrip())[-1]


def _data(event: bytes) -> bytes:
    return b"".join(line[len(b"data:") :] for line in event.splitlines() if line.startswith(b"data:"))


def _parsed(event: bytes) -> dict[str, Any] | None:
    """Read the event with the whole answer; ``None`` if this is another, or no whole one."""
    try:
        value = json.loads(_data(event))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.get("type") in _LAST else None


def _is_rest(event: bytes) -> bool:
    """Tell whether this is the end of the event with the whole answer, whose beginning was passed on before."""
    return not _data(event) and _CLOSING.search(event) is not None
