"""What the answers of OpenAI's APIs look like: errors, the event that ends a broken stream, and the count of tokens.

Enters: a reason with its sentence, or bytes of the engine's answer. Leaves: bytes for the caller, ``Usage``, the
engine's own message. Answers are searched, not parsed: a piece without a count costs one search.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gateway.dialects.call import Usage
from gateway.reasons import PUBLIC
from gateway.wire import strict_json

if TYPE_CHECKING:
    from gateway.reasons import Reason

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_FIRST_SERVER_ERROR = 500
_LONGEST_MESSAGE = 2048
_USAGE = b'"usage":'
# A name of a member follows one of these; a quote within text follows a backslash.
_BEFORE_NAME = frozenset(b"{, \t\r\n")
_LONGEST_USAGE = 4096
_NO_CHOICE = re.compile(rb'"choices":\s*\[\s*\]')
_BLANK = re.compile(rb"(\r\n\r\n|\n\n|\r\r)")
_decoder = json.JSONDecoder()


def error(reason: Reason, message: str, param: str | None, status: int) -> bytes:
    """Give the error object of OpenAI's APIs; ``code`` is the public reason."""
    return strict_json.dumps({"error": _error(reason, message, param, status)})


def error_event(reason: Reason, message: str) -> bytes:
    """Give the event with an error object that OpenAI's SDKs raise from within a stream."""
    return b"data: " + strict_json.dumps({"error": _error(reason, message, None, _FIRST_SERVER_ERROR)}) + b"\n\n"


def engine_message(body: bytes) -> str | None:
    """Take the message out of an engine's error body, at most 2 KiB of it; ``None`` when there is none.

    vLLM writes ``{"error": {"message": …}}``, before 0.10 ``{"message": …}``; FastAPI writes ``{"detail": …}``.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    fault = value.get("error")
    if isinstance(fault, dict):
        value = fault
    found = value.get("message") or value.get("detail") or fault
    if not isinstance(found, str):
        return None
    return found.encode("utf-8", "replace")[:_LONGEST_MESSAGE].decode("utf-8", "ignore")


def usage(data: bytes) -> Usage | None:
    """Find the last count of tokens in a body or in some whole events; ``None`` without one."""
    end = data.rfind(_USAGE)
    while end != -1:
        if end == 0 or data[end - 1] in _BEFORE_NAME:
            found = _usage(data[end + len(_USAGE) : end + len(_USAGE) + _LONGEST_USAGE])
            if found is not None:
                return found
        end = data.rfind(_USAGE, 0, end)
    return None


def without_usage(events: bytes) -> bytes:
    """Give events of chat or completions without those that have a count and no choice."""
    if _NO_CHOICE.search(events) is None:
        return events
    parts = _BLANK.split(events)  # an event, the end of it, the next event, …, and what follows the last end
    kept = [part + end for part, end in zip(parts[::2], [*parts[1::2], b""], strict=True) if not _is_usage(part)]
    return b"".join(kept)


def _is_usage(event: bytes) -> bool:
    """Tell whether an event is the one that answers ``stream_options.include_usage``."""
    try:
        value = json.loads(event.removeprefix(b"data:")) if _NO_CHOICE.search(event) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("choices") == [] and value.get("usage") is not None


def _usage(text: bytes) -> Usage | None:
    try:
        value, _ = _decoder.raw_decode(text.decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    details = value.get("completion_tokens_details")
    return Usage(
        prompt=_count(value.get("prompt_tokens")),
        completion=_count(value.get("completion_tokens")),
        reasoning=_count(details.get("reasoning_tokens")) if isinstance(details, dict) else None,
    )


def _count(value: Any) -> int | None:  # noqa: ANN401  (any JSON value)
    return value if type(value) is int and value >= 0 else None


def _error(reason: Reason, message: str, param: str | None, status: int) -> dict[str, str | None]:
    kind = "server_error" if status >= _FIRST_SERVER_ERROR else _TYPES.get(status, "invalid_request_error")
    return {"message": message, "type": kind, "param": param, "code": PUBLIC.get(reason, reason).value}
