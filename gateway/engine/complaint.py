"""What an engine complains of, where its words tell: named for the operator, and for the caller where he can mend it.

Enters: the status and the message of an engine's error answer. Leaves: one of a few phrases, or nothing. An engine's
own words never pass with a 5xx (they hold paths and traces), so this is all that anybody outside learns of them.
"""

from __future__ import annotations

from typing import Final

PROMPT_TOO_LONG: Final = "the prompt is longer than the model's context"
OUT_OF_MEMORY: Final = "out of memory"
CORE_DIED: Final = "the engine core died"
QUEUE_FULL: Final = "its queue is full"
SCALING: Final = "it is scaling"

_SERVER_ERROR: Final = 500
_BUSY: Final = frozenset({429, 503})

# Words of vLLM 0.8 to 0.33, of PyTorch, and of LiteLLM in front of them; in lower case.
_REQUEST: Final = (
    (
        PROMPT_TOO_LONG,
        (
            "maximum context length",
            "maximum model length",
            "max_model_len",
            "context window",
            "context length exceeded",
        ),
    ),
)
_FAILURE: Final = (
    (OUT_OF_MEMORY, ("out of memory", "outofmemory")),
    (CORE_DIED, ("enginedead", "engine is dead", "enginecore encountered", "background loop has errored")),
    (SCALING, ("currently scaling",)),
)
_LOOKED_AT: Final = 2048


def complaint(status: int, message: str | None) -> str:
    """Name what is wrong; an empty text where neither status nor words tell."""
    words = (message or "")[:_LOOKED_AT].lower()
    for phrase, signs in _FAILURE if status >= _SERVER_ERROR else _REQUEST:
        if any(sign in words for sign in signs):
            return phrase
    return QUEUE_FULL if status in _BUSY else ""
