from __future__ import annotations

from gateway.dialects.call import Call, Usage


def test_a_call_does_not_show_its_prompt() -> None:
    assert "secret" not in repr(Call({"messages": [{"content": "secret"}]}))


def test_a_count_that_was_not_given_is_none() -> None:
    assert Usage() == Usage(None, None, None)


def test_a_later_count_adds_to_an_earlier_one() -> None:
    assert Usage(1, 2).after(None) == Usage(1, 2)
    assert Usage(None, 2, None).after(Usage(14, 0, 3)) == Usage(14, 2, 3)
    assert Usage(15, None, 4).after(Usage(14, 6, 3)) == Usage(15, 6, 4)
    assert Usage(0, 0, 0).after(Usage(14, 6, 3)) == Usage(0, 0, 0)
