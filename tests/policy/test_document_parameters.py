from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.policy.document_parameters import CapKeys, NumberCap, ParametersKeys, SizeCap, ThinkingKeys

CAP: TypeAdapter[NumberCap | SizeCap] = TypeAdapter(CapKeys)


@pytest.mark.parametrize(
    "keys, kind",
    [
        ({"at_most": 0, "otherwise": "lower"}, NumberCap),
        ({"at_most": 0.5, "otherwise": "refuse"}, NumberCap),
        ({"at_most_items": 1, "otherwise": "refuse"}, SizeCap),
        ({"at_most_characters": 1, "otherwise": "refuse"}, SizeCap),
        ({"at_most_media": 0, "otherwise": "refuse"}, SizeCap),
        ({"at_most_items": 1, "at_most_characters": 1, "at_most_media": 1, "otherwise": "refuse"}, SizeCap),
    ],
)
def test_a_cap_is_of_one_kind(keys: dict[str, Any], kind: type) -> None:
    assert isinstance(CAP.validate_python(keys), kind)


@pytest.mark.parametrize(
    "keys",
    [
        {"at_most": 1},
        {"otherwise": "refuse"},
        {"at_most": True, "otherwise": "refuse"},
        {"at_most": 1, "at_most_items": 1, "otherwise": "refuse"},
        {"at_most_items": 0, "otherwise": "refuse"},
        {"at_most_items": 1, "otherwise": "lower"},
        {"at_most_characters": 1, "otherwise": "lower"},
        {"at_most_media": -1, "otherwise": "refuse"},
        {"at_most_media": True, "otherwise": "refuse"},
        7,
    ],
)
def test_a_cap_without_a_number_or_a_consequence_is_none(keys: object) -> None:
    with pytest.raises(ValidationError):
        CAP.validate_python(keys)


@pytest.mark.parametrize("who", ["everyone", "nobody", ["client:a", "group:b"]])
def test_thinking_is_for_all_for_none_or_for_those_named(who: object) -> None:
    keys = ThinkingKeys.model_validate({"default": "disabled", "may_enable": who})
    assert keys.may_enable == (tuple(who) if isinstance(who, list) else who)


@pytest.mark.parametrize("who", [[], "all", ["everyone"], True, {"client": "a"}])
def test_nobody_else_may_be_named(who: object) -> None:
    with pytest.raises(ValidationError):
        ThinkingKeys.model_validate({"default": "disabled", "may_enable": who})


def test_values_are_kept_as_they_are() -> None:
    keys = ParametersKeys.model_validate({"accept": ["standard"], "defaults": {"a": False, "b": 0, "c": [], "d.e": {}}})
    assert keys.defaults == {"a": False, "b": 0, "c": [], "d.e": {}}
    assert (keys.force, keys.caps, keys.unlisted) == (None, None, None)
