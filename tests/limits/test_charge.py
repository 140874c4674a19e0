from __future__ import annotations

from gateway.limits.charge import MEDIA_TOKENS, prompt_tokens


def test_a_prompt_is_estimated_by_its_bytes_and_never_as_nothing() -> None:
    assert prompt_tokens(2) == 1
    assert prompt_tokens(400) == 100
    assert prompt_tokens(401) == 101


def test_media_count_as_such_and_not_by_their_length() -> None:
    assert prompt_tokens(400, 2) == 100 + 2 * MEDIA_TOKENS
