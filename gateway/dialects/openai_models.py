"""The models API of OpenAI, which the gateway answers by itself: ``GET /v1/models`` and ``GET /v1/models/{model}``.

Enters: the engine's own list (its bytes), or the models that one client may see. Leaves: what the engine serves, or
the body for the client. vLLM's list shows paths of files and adapters; of each entry only the name and the length of
its window are read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.dialects import openai_answers
from gateway.dialects.call import Call
from gateway.reasons import Malformed, Reason
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.dialects.call import Replacement

_OWNER = "vllm"


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model as a client sees it: its alias, when its engine began to serve it (Unix time), its window in tokens."""

    id: str
    created: int
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as an engine lists it."""

    created: int = 0
    max_model_len: int | None = None


def served_models(body: bytes) -> Mapping[str, ServedModel]:
    """Read an engine's ``GET /v1/models`` by the names it serves. Raises ``Malformed(ENGINE_MALFORMED)``."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    listed = value.get("data") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise Malformed(Reason.ENGINE_MALFORMED, "the engine's list of models is not one")
    return {
        entry["id"]: ServedModel(_integer(entry.get("created")) or 0, _integer(entry.get("max_model_len")))
        for entry in listed
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    }


def models_body(entries: Iterable[ModelEntry]) -> bytes:
    """Give the body of the list."""
    return strict_json.dumps({"object": "list", "data": [_entry(entry) for entry in entries]})


def model_body(entry: ModelEntry) -> bytes:
    """Give the body for one model."""
    return strict_json.dumps(_entry(entry))


class OpenAIModels:
    """The list (``openai-models``) or one entry (``openai-model``); see ``call.Dialect``."""

    upstream: tuple[str, str] | None = None
    tells_usage: str | None = None
    delta: bytes = b"\n\n"
    lead: int = 0
    count_from: int = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, body: bytes) -> Call:
        """Accept no body. Raises ``Malformed(BODY_MALFORMED)`` for one."""
        if body:
            raise Malformed(Reason.BODY_MALFORMED, "this endpoint takes no body")
        return Call({})

    def write(self, call: Call, changes: Iterable[Replacement]) -> bytes:  # noqa: ARG002  (the port's)
        """Give no body: nothing is sent to an engine."""
        return b""

    def usage(self, data: bytes) -> None:
        """Count nothing."""

    def take_usage(self, events: bytes) -> tuple[None, bytes]:
        """Leave out nothing."""
        return None, events

    def ends(self, _events: bytes) -> bool:
        """Stream nothing."""
        return True

    def error(self, reason: Reason, message: str, param: str | None, request_id: str, status: int) -> bytes:  # noqa: ARG002  (the port\'s)
        """Give OpenAI's error object."""
        return openai_answers.error(reason, message, param, status)

    def error_event(self, reason: Reason, message: str, request_id: str) -> bytes:  # noqa: ARG002  (the port\'s)
        """Give OpenAI's error event."""
        return openai_answers.error_event(reason, message)

    def engine_message(self, body: bytes) -> str | None:
        """Take the message out of an engine's error body."""
        return openai_answers.engine_message(body)


def _entry(entry: ModelEntry) -> dict[str, str | int]:
    body: dict[str, str | int] = {"id": entry.id, "object": "model", "created": entry.created, "owned_by": _OWNER}
    if entry.max_model_len is not None:
        body["max_model_len"] = entry.max_model_len
    return body


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
