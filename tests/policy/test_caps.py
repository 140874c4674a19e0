from __future__ import annotations

from typing import Any

import pytest

from gateway.policy.caps import apply_caps, bound_answer, characters, differing
from gateway.policy.draft import Draft
from gateway.policy.model import Cap
from gateway.reasons import Malformed, Reason

TOKENS = ("max_completion_tokens", "max_tokens")
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
MESSAGE = {"role": "user", "content": "abcde", "name": "fg"}


def over(body: dict[str, Any], name: str, cap: Cap) -> str | None:
    try:
        apply_caps(Draft(body), [(name, cap)])
    except Malformed as fault:
        found = fault
    else:
        return None
    assert (found.reason, found.param) == (Reason.PARAMETER_OVER_CAP, name)
    return found.detail


@pytest.mark.parametrize(
    "value, cap, detail",
    [
        (1, Cap(at_most=1), None),
        (2, Cap(at_most=1), "is more than 1"),
        (0.6, Cap(at_most=0.5), "is more than 0.5"),
        (0, Cap(at_most=0), None),
        (["a"], Cap(at_most_items=1), None),
        (["a", "b"], Cap(at_most_items=1), "has more than 1 items"),
        ({"a": 1, "b": 2}, Cap(at_most_items=1), "has more than 1 items"),
        ("ab", Cap(at_most_items=1), None),
        ("ab", Cap(at_most_characters=2), None),
        ("abc", Cap(at_most_characters=2), "has more than 2 characters"),
        (["ab", "c"], Cap(at_most_characters=2), "has more than 2 characters"),
        ([1, 2], Cap(at_most_characters=2), None),
        ([1, 2, 3], Cap(at_most_characters=2), "has more than 2 characters"),
        ([[1, 2], [3]], Cap(at_most_characters=2), "has more than 2 characters"),
        (None, Cap(at_most=0), None),
        ([IMAGE, IMAGE], Cap(at_most_media=2), None),
        ([IMAGE, IMAGE], Cap(at_most_media=1), "has more than 1 media parts"),
        (["ab"], Cap(at_most_items=1, at_most_characters=1), "has more than 1 characters"),
    ],
)
def test_a_value_over_its_cap_is_refused(value: object, cap: Cap, detail: str | None) -> None:
    assert over({"x": value}, "x", cap) == detail


def test_what_was_not_sent_is_over_no_cap() -> None:
    assert over({}, "x", Cap(at_most=0)) is None


def test_a_member_of_a_closed_list_is_capped_by_its_dotted_name() -> None:
    assert over({"x": {"y": ["a", "b"]}}, "x.y", Cap(at_most_items=1)) == "has more than 1 items"


def test_a_value_over_its_cap_is_lowered_where_the_policy_says_so() -> None:
    draft = Draft({"n": 9})
    apply_caps(draft, [("n", Cap(at_most=2, lower=True))])
    assert draft.body == {"n": 2}


@pytest.mark.parametrize(
    "name, value, count",
    [
        ("messages", [MESSAGE, MESSAGE], 14),
        ("messages", [{"role": "user", "content": [{"type": "text", "text": "abc"}]}], 3),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}], 0),
        (
            "messages",
            [{"role": "assistant", "tool_calls": [{"index": 1, "function": {"name": "f", "arguments": "{}"}}]}],
            3,
        ),
        ("messages", [{"role": "user", "content": [{"type": "image", "source": {"data": "iVBORw0KGgo="}}]}], 0),
        ("messages", [{"content": [{"type": "tool_use", "input": {"source": "abc", "role": ["de"]}}]}], 15),
        ("tools", [{"function": {"name": "f"}}], 13),
        ("input", ["ab", "c"], 3),
        ("input", "ab", 2),
        ("input", [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}], 0),
        ("messages", [{"role": "user", "content": [{"type": "image", "source": {"data": "AAAA"}}]}], 0),
        ("input", [{"type": "message", "content": [{"type": "input_text", "text": "abc"}]}], 3),
        ("input", [{"content": [{"type": "input_image", "image_url": "data:"}]}], 0),
    ],
)
def test_characters_are_those_of_text_not_of_media_or_roles(name: str, value: object, count: int) -> None:
    assert characters(name, value) == count


@pytest.mark.parametrize(
    "body, caps, after",
    [
        ({}, [], {"max_completion_tokens": 100}),
        ({"max_tokens": None}, [], {"max_tokens": None, "max_completion_tokens": 100}),
        ({"max_tokens": 5}, [], {"max_tokens": 5}),
        ({"max_tokens": 999}, [], {"max_tokens": 100}),
        ({"max_completion_tokens": 999}, [], {"max_completion_tokens": 100}),
        ({"max_tokens": 999, "max_completion_tokens": 999}, [], {"max_tokens": 100, "max_completion_tokens": 100}),
        ({"max_tokens": 99}, [Cap(at_most=50, lower=True)], {"max_tokens": 50}),
        ({"max_tokens": 999}, [Cap(at_most=50, lower=True)], {"max_tokens": 50}),
        ({"max_tokens": 999}, [Cap(at_most=500, lower=True)], {"max_tokens": 100}),
        ({}, [Cap(at_most=50), Cap(at_most=60, lower=True)], {"max_completion_tokens": 50}),
        ({}, [Cap(at_most=500)], {"max_completion_tokens": 100}),
    ],
)
def test_the_longest_answer_is_always_bounded(body: dict[str, Any], caps: list[Cap], after: dict[str, Any]) -> None:
    draft = Draft(body)
    bound_answer(draft, TOKENS, caps, 100)
    assert draft.body == after


@pytest.mark.parametrize("most, sent, after", [(100, {}, 16), (8, {}, 8), (100, {"max_tokens": 99}, 99)])
def test_where_an_api_bounds_an_answer_that_nobody_bounded_so_does_the_gateway(
    most: int, sent: dict[str, Any], after: int
) -> None:
    draft = Draft(sent)
    bound_answer(draft, ("max_tokens",), [], most, 16)
    assert draft.body == {"max_tokens": after}


@pytest.mark.parametrize("name", TOKENS)
def test_a_refusing_cap_on_either_name_holds_for_both(name: str) -> None:
    with pytest.raises(Malformed) as caught:
        bound_answer(Draft({name: 51}), TOKENS, [Cap(at_most=50)], 100)
    assert (caught.value.reason, caught.value.param) == (Reason.PARAMETER_OVER_CAP, name)


def test_a_dialect_without_answers_in_tokens_is_left_alone() -> None:
    draft = Draft({"input": "a"})
    bound_answer(draft, (), [], None)
    assert draft.changes == []


def test_synonyms_say_the_same_or_are_refused() -> None:
    differing(Draft({"max_tokens": 5, "max_completion_tokens": 5}), TOKENS)
    differing(Draft({"max_tokens": 5, "max_completion_tokens": None}), TOKENS)
    with pytest.raises(Malformed) as caught:
        differing(Draft({"max_tokens": 1, "max_completion_tokens": 1_000_000}), TOKENS)
    assert (caught.value.reason, caught.value.param) == (Reason.PARAMETER_INVALID, "max_tokens")
