from __future__ import annotations

from gateway.limits.charge import MEDIA_TOKENS, prompt_tokens


def test_a_prompt_is_estimated_by_its_bytes_and_never_as_nothing() -> None:
    assert prompt_tokens(b"{}") == 1
    assert prompt_tokens(b"x" * 400) == 100
    assert prompt_tokens(b"x" * 401) == 101


def test_media_within_the_body_count_as_such_and_not_by_their_length() -> None:
    body = b'{"a":"data:image/png;base64,' + b"A" * 100_000 + b'","b":"data:x"}'
    assert 2 * MEDIA_TOKENS < prompt_tokens(body) < 2 * MEDIA_TOKENS + 10
