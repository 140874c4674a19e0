"""An engine's words are recognised and never repeated."""

from __future__ import annotations

import pytest

from gateway.engine.complaint import CORE_DIED, OUT_OF_MEMORY, PROMPT_TOO_LONG, QUEUE_FULL, SCALING, complaint

LONG = (
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8990 in the messages, 10 "
    "in the completion). Please reduce the length of the messages or completion."
)


@pytest.mark.parametrize(
    "status, message, phrase",
    [
        (400, LONG, PROMPT_TOO_LONG),
        (400, "The decoder prompt (length 40) is longer than the maximum model length of 32.", PROMPT_TOO_LONG),
        (400, "litellm.ContextWindowExceededError: the context window is too small", PROMPT_TOO_LONG),
        (500, "CUDA out of memory. Tried to allocate 50.00 MiB.", OUT_OF_MEMORY),
        (500, "torch.OutOfMemoryError: HIP", OUT_OF_MEMORY),
        (500, "EngineCore encountered an issue. See stack trace (above) for the root cause.", CORE_DIED),
        (503, "EngineDeadError", CORE_DIED),
        (503, "The model is currently scaling. Please try again later.", SCALING),
        (503, "busy", QUEUE_FULL),
        (429, None, QUEUE_FULL),
        (400, "temperature must be non-negative", ""),
        (500, "Internal Server Error", ""),
        (500, None, ""),
        (502, "", ""),
    ],
)
def test_what_is_wrong_is_named(status: int, message: str | None, phrase: str) -> None:
    assert complaint(status, message) == phrase


def test_a_caller_cannot_have_his_own_words_taken_for_an_outage() -> None:
    """A 400 that quotes the request is the caller's, whatever it says."""
    assert complaint(400, "unknown tool: CUDA out of memory") == ""
