"""What the answers of OpenAI's APIs look like: errors, the event that ends a broken stream, and the count of tokens.

Enters: a reason with its sentence, or bytes of the engine's answer. Leaves: bytes for the caller, ``Usage``, the
engine's own message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jiter

from gateway.dialects.call import Usage
from gateway.dialects.counts import USAGE, count, count_at, counts
from gateway.reasons import PUBLIC
from gateway.wire import strict_json

if TYPE_CHECKING:
    from gateway.reasons import Reason


@dataclass(frozen=True, slots=True)
class Counts:
    """The names under which an API counts tokens; reasoning tokens stand in the object ``details``."""

    prompt: str
    completion: str
    details: str


COMPLETION_COUNTS = Counts("prompt_tokens", "completion_tokens", "completion_tokens_details")
RESPONSE_COUNTS = Counts("input_tokens", "output_tokens", "output_tokens_details")

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_FIRST_SERVER_ERROR = 500
_LONGEST_MESSAGE = 2048


def error(reason: Reason, message: str, param: str | None, status: int) -> bytes:
    """Give the error object of OpenAI's APIs; ``code`` is the public reason."""
    return strict_json.dumps({"error": _error(reason, message, param, status)})


def error_event(reason: Reason, message: str) -> bytes:
    """Give the event with an error object that OpenAI's SDKs raise from within a stream."""
    return b"data: " + strict_json.dumps({"error": _error(reason, message, None, _FIRST_SERVER_ERROR)}) + b"\n\n"


def response_error_event(reason: Reason, message: str) -> bytes:
    """Give the event of type ``error`` of the Responses API, with the error object that OpenAI's SDKs raise beside it.

    The API's own event is flat; the SDKs (3.57) raise none without the member ``error``.
    """
    fault = _error(reason, message, None, _FIRST_SERVER_ERROR)
    event = {"type": "error", **{name: fault[name] for name in ("code", "message", "param")}, "sequence_number": 0}
    return b"event: error\ndata: " + strict_json.dumps({**event, "error": fault}) + b"\n\n"


def engine_message(body: bytes) -> str | None:
    """Take the message out of an engine's error body, at most 2 KiB of it; ``None`` when there is none.

    vLLM writes ``{"error": {"message": …}}``, before 0.10 ``{"message": …}``; FastAPI writes ``{"detail": …}``.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = _begun(body)
    if not isinstance(value, dict):
        return None
    fault = value.get("error")
    if isinstance(fault, dict):
        value = fault
    found = value.get("message") or value.get("detail") or fault
    if not isinstance(found, str):
        return None
    return found.encode("utf-8", "replace")[:_LONGEST_MESSAGE].decode("utf-8", "ignore")


def _begun(body: bytes) -> Any:  # noqa: ANN401  (any JSON value)
    """Read what there is of a body that was cut off: of a long one, which repeats a prompt, the beginning comes."""
    try:
        return jiter.from_json(body, partial_mode="trailing-strings")
    except ValueError:
        return None


def usage(data: bytes, names: Counts = COMPLETION_COUNTS) -> Usage | None:
    """Find the last count of tokens in a body or in some whole events; ``None`` without one."""
    at = data.rfind(USAGE)
    if at == -1:
        return None
    found = count_at(data, at)  # the last, as nearly always: to begin looking for all of them costs as much again
    if found is None:
        found = next(counts(data), None)
    return None if found is None else counted(found, names)


def counted(value: dict[str, Any], names: Counts) -> Usage:
    """Read a count of tokens under the names that its API has."""
    # Without a call for each number, and by position: it is read from every answer.
    prompt, completion, details = value.get(names.prompt), value.get(names.completion), value.get(names.details)
    return Usage(
        prompt if type(prompt) is int and prompt >= 0 else None,
        completion if type(completion) is int and completion >= 0 else None,
        None if details is None or not isinstance(details, dict) else count(details.get("reasoning_tokens")),
    )


def _error(reason: Reason, message: str, param: str | None, status: int) -> dict[str, str | None]:
    kind = "server_error" if status >= _FIRST_SERVER_ERROR else _TYPES.get(status, "invalid_request_error")
    return {"message": message, "type": kind, "param": param, "code": PUBLIC.get(reason, reason).value}
