from __future__ import annotations

from gateway.dialects.call import Call, Usage


def test_a_call_does_not_show_its_prompt() -> None:
    assert "secret" not in repr(Call({"messages": [{"content": "secret"}]}))


def test_a_count_that_was_not_given_is_none() -> None:
    assert Usage() == Usage(None, None, None)


def test_a_later_count_adds_to_an_earlier_one() -> None:
    assert Usage(1).after(None) == Usage(1)
    assert Usage(completion=5).after(Usage(3, 1, 2)) == Usage(3, 5, 2)
    assert Usage(4, None, 0).after(Usage(3, 1, 2)) == Usage(4, 1, 0)
