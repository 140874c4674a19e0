from __future__ import annotations

from typing import Any

import pytest

from gateway.policy.compile_caps import characters, over_cap
from gateway.policy.model import Cap
from tests.policy.edits import PARTNER, Broken, assert_refused, compiled

CAP = "      n:            {at_most: 1, otherwise: refuse}\n"
IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]

REFUSED = [
    Broken(CAP, CAP + "      min_p: {at_most: 1, otherwise: lower}\n", "      min_p:", "which `accept` does not list"),
    Broken(
        CAP,
        CAP + "      temprature: {at_most: 1, otherwise: lower}\n",
        "      temprature:",
        "the nearest is `temperature`",
    ),
    Broken(CAP, CAP + "      user: {at_most: 1, otherwise: lower}\n", "      user: {at", "`user` is no number"),
    Broken(CAP, CAP + "      seed: {at_most_items: 1, otherwise: refuse}\n", "      seed:", "`seed` is no list"),
    Broken(
        CAP, CAP + "      seed: {at_most_characters: 1, otherwise: refuse}\n", "      seed:", "`seed` holds no text"
    ),
    Broken(CAP, CAP + "      stream: {at_most: 1, otherwise: refuse}\n", "      stream:", "`stream` is no number"),
    Broken("n:            {at_most: 1,", "n: {at_most: 1.5,", "n: {at_most: 1.5", "a whole number, so its cap is one"),
    Broken("n:            {at_most: 1,", "n: {at_most: 0,", "n: {at_most: 0", "no value of `n` is so small"),
    Broken(CAP, CAP + "      seed: {at_most_media: 1, otherwise: refuse}\n", "      seed:", "`seed` holds no media"),
    Broken(CAP, CAP + "      stop: {at_most_media: 0, otherwise: refuse}\n", "      stop:", "`stop` holds no media"),
    Broken(
        "messages:     {at_most_items: 1024,",
        "messages:     {at_most_items: 1024, at_most_media: -1,",
        "messages:     {at_most_items: 1024, at_most_media",
        "the smallest number here is 0",
    ),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words + broken.new[-30:])
def test_a_cap_that_could_never_hold_is_refused(broken: Broken) -> None:
    assert_refused(broken)


def caps(*edits: tuple[str, str]) -> dict[str, Cap]:
    """Give the caps of the endpoint chat of an edited example."""
    found = compiled(PARTNER, *edits).plane.endpoints[b"/v1/chat/completions"]["POST"].parameters
    assert found is not None
    return dict(found.caps)


def test_a_cap_of_zero_holds_where_zero_is_a_value() -> None:
    found = caps(("      n:  ", "      temperature: {at_most: 0, otherwise: lower}\n      n:  "))
    assert found["temperature"] == Cap(at_most=0, lower=True)


def test_one_field_may_have_several_sizes() -> None:
    sizes = "{at_most_items: 100, at_most_characters: 4000, at_most_media: 0, otherwise: refuse}"
    found = caps(("{at_most_items: 1024, otherwise: refuse}", sizes))
    assert found["messages"] == Cap(at_most_items=100, at_most_characters=4000, at_most_media=0)


@pytest.mark.parametrize(
    "value, cap, over",
    [
        (2, Cap(at_most=1), True),
        (1, Cap(at_most=1), False),
        (1.5, Cap(at_most=1), True),
        (True, Cap(at_most=0), False),
        ("x", Cap(at_most=0), False),
        (["a", "b"], Cap(at_most_items=1), True),
        (["a"], Cap(at_most_items=1), False),
        ("ab", Cap(at_most_items=1), False),
        ("ab", Cap(at_most_characters=1), True),
        (["a", {"b": "c"}, 3], Cap(at_most_characters=1), True),
        (["a", 3], Cap(at_most_characters=1), False),
        (["a", "b"], Cap(at_most_items=2, at_most_characters=1), True),
        (IMAGE, Cap(at_most_media=0), True),
        (IMAGE, Cap(at_most_media=1), False),
    ],
)
def test_a_value_of_the_policy_is_held_against_its_own_cap(value: Any, cap: Cap, over: bool) -> None:  # noqa: ANN401, FBT001  (a JSON value; the answer)
    assert over_cap(value, cap) is over


def test_characters_are_those_of_all_text_within() -> None:
    assert characters({"a": ["bc", {"d": "e"}], "f": 1}) == 3
