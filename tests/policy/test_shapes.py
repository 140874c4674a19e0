from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.policy import shapes
from gateway.policy.shapes import Closed, Maybe, Several


class Small(Closed):
    """A mapping for tests."""

    name: str
    number: shapes.Positive | None = None


class Lists(Closed):
    """Lists for tests."""

    several: Several[str] = ("x",)
    maybe: Maybe[str] = ()


class Optional(shapes.Said):
    """A mapping of optional keys for tests."""

    name: str | None = None


def refusal(annotation: Any, value: object) -> str:  # noqa: ANN401  (any annotation)
    """Give the message with which a value is refused."""
    with pytest.raises(ValidationError) as caught:
        # A model states its own strictness, which a list of it sets aside.
        TypeAdapter(annotation).validate_python(value, strict=None if isinstance(annotation, type) else True)
    return str(caught.value.errors()[0]["msg"])


@pytest.mark.parametrize(
    "annotation, value",
    [
        (shapes.Number, 1),
        (shapes.Number, 0.5),
        (shapes.Number, 0),
        (shapes.Value, False),
        (shapes.Value, 0),
        (shapes.Value, ""),
        (shapes.Value, []),
        (shapes.Value, {}),
        (shapes.Object, {"a": None}),
        (shapes.OnlyTrue, True),
        (shapes.VersionOne, 1),
        (shapes.Positive, 1),
    ],
)
def test_a_value_of_the_shape_is_taken_as_it_is(annotation: Any, value: object) -> None:  # noqa: ANN401  (as above)
    got = TypeAdapter(annotation).validate_python(value, strict=True)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "annotation, value",
    [
        (shapes.Number, True),
        (shapes.Number, "1"),
        (shapes.Value, None),
        (shapes.Object, []),
        (shapes.OnlyTrue, False),
        (shapes.OnlyTrue, 1),
        (shapes.VersionOne, True),
        (shapes.VersionOne, 1.0),
        (shapes.VersionOne, 2),
        (shapes.Positive, 0),
        (shapes.Positive, 1.0),
        (shapes.Positive, True),
    ],
)
def test_nothing_is_converted(annotation: Any, value: object) -> None:  # noqa: ANN401  (as above)
    assert refusal(annotation, value)


def test_lists_are_read_as_tuples_whose_items_stay_strict() -> None:
    assert Lists.model_validate({"several": ["a", "b"]}).several == ("a", "b")
    assert refusal(Lists, {"several": [1]})


def test_an_empty_list_is_an_error_unless_it_means_none() -> None:
    assert "an empty list is an error" in refusal(Lists, {"several": []})
    assert Lists.model_validate({"maybe": []}).maybe == ()


@pytest.mark.parametrize("key", ["several", "maybe"])
def test_an_item_stands_in_a_list_once(key: str) -> None:
    assert "twice" in refusal(Lists, {key: ["a", "b", "a"]})


def test_a_mapping_is_closed() -> None:
    assert Small.model_validate({"name": "a", "number": 3}).number == 3
    assert refusal(Small, {"name": "a", "other": 1})


def test_a_mapping_of_optional_keys_must_say_something() -> None:
    assert Optional.model_validate({"name": "a"}).name == "a"
    assert "an empty mapping is an error" in refusal(Optional, {})


@pytest.mark.parametrize(
    "annotation, schema",
    [
        (shapes.Number, {"type": "number"}),
        (shapes.OnlyTrue, {"const": True}),
        (shapes.VersionOne, {"const": 1}),
        (Several[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 1}),
        (Maybe[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    ],
)
def test_the_json_schema_states_the_shape(annotation: Any, schema: dict[str, Any]) -> None:  # noqa: ANN401  (as above)
    assert TypeAdapter(annotation).json_schema() == schema
