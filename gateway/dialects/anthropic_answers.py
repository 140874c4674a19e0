"""What the answers of Anthropic's API look like: errors, the event that ends a broken stream, and the count of tokens.

Enters: a reason with its sentence, or bytes of the engine's answer. Leaves: bytes for the caller, ``Usage``. The shapes
are those of Anthropic's API (version 2023-06-01); ``code`` in an error is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.call import Usage
from gateway.dialects.counts import count, counts
from gateway.reasons import ANSWERS, PUBLIC
from gateway.wire import strict_json

if TYPE_CHECKING:
    from gateway.reasons import Reason

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_FIRST_SERVER_ERROR = 500
# vLLM counts what its cache held beside the rest, as Anthropic does.
_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def error(reason: Reason, message: str, request_id: str, status: int) -> bytes:
    """Give the error object; ``code`` is the public reason."""
    return strict_json.dumps(_error(reason, message, request_id, status))


def error_event(reason: Reason, message: str, request_id: str) -> bytes:
    """Give the event with an error that Anthropic's SDKs raise from within a stream."""
    value = strict_json.dumps(_error(reason, message, request_id, ANSWERS[reason].status))
    return b"event: error\ndata: " + value + b"\n\n"


def usage(data: bytes) -> Usage | None:
    """Find the count of tokens in a body or in some whole events; ``None`` without one.

    A stream says the prompt's in ``message_start`` and the answer's in ``message_delta``; where both are in one piece,
    the later says last what it says.
    """
    found: Usage | None = None
    for one in counts(data):
        part = Usage(prompt=_prompt(one), completion=count(one.get("output_tokens")))
        found = part if found is None else found.after(part)
        if found.prompt is not None and found.completion is not None:
            break
    return found


def ends(events: bytes) -> bool:
    """Tell whether the last of these events is the one that ends a message."""
    last = events.replace(b"\r\n", b"\n").rstrip().rpartition(b"\n\n")[2]
    return last.startswith(b"event: message_stop\n")


def _prompt(one: dict[str, Any]) -> int | None:
    parts = [number for name in _PROMPT if (number := count(one.get(name))) is not None]
    return sum(parts) if parts else None


def _error(reason: Reason, message: str, request_id: str, status: int) -> dict[str, Any]:
    kind = _TYPES.get(status, "api_error" if status >= _FIRST_SERVER_ERROR else "invalid_request_error")
    fault = {"type": kind, "message": message, "code": PUBLIC.get(reason, reason).value}
    return {"type": "error", "error": fault, "request_id": request_id}
