from __future__ import annotations

from gateway.limits.charge import MEDIA_TOKENS, MOST, Charge, prompt_tokens


def test_a_prompt_is_estimated_by_its_bytes_and_never_as_nothing() -> None:
    assert prompt_tokens(b"{}") == 1
    assert prompt_tokens(b"x" * 400) == 100
    assert prompt_tokens(b"x" * 401) == 101


def test_media_within_the_body_count_as_such_and_not_by_their_length() -> None:
    body = b'{"a":"data:image/png;base64,' + b"A" * 100_000 + b'","b":"data:x"}'
    assert 2 * MEDIA_TOKENS < prompt_tokens(body) < 2 * MEDIA_TOKENS + 10


def test_the_engines_count_is_charged_where_there_is_one() -> None:
    charge = Charge(10, 100)
    assert charge.tokens == 110
    assert charge.spent(12, 7) == 19
    assert charge.spent(0, 0) == 0


def test_what_nobody_counted_is_charged_as_estimated_and_as_the_most_that_it_could_be() -> None:
    charge = Charge(10, 100)
    assert charge.spent(None, 7) == 17
    assert charge.spent(12, None) == 112
    assert charge.spent(None, None) == 110


def test_numbers_that_nobody_can_mean_are_cut() -> None:
    assert Charge(10, 2**64).tokens == Charge(1, 1).spent(2**64, 2**64) == MOST
