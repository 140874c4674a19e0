from __future__ import annotations

from gateway.dialects.call import Call, Usage


def test_a_call_does_not_show_its_prompt() -> None:
    assert "secret" not in repr(Call({"messages": [{"content": "secret"}]}))


def test_a_count_that_was_not_given_is_none() -> None:
    assert Usage() == Usage(None, None, None)
