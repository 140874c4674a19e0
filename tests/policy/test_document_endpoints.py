from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.dialects.registry import FACTS
from gateway.policy.document_endpoints import CONTROL, DeadlineKeys, EndpointKeys, ModelKeys


@pytest.mark.parametrize("dialect", FACTS)
def test_every_dialect_has_its_word(dialect: str) -> None:
    assert EndpointKeys.model_validate({"allow": "POST /x", "dialect": dialect}).dialect == dialect


def test_no_dialect_is_a_word_without_facts() -> None:
    schema = EndpointKeys.model_json_schema()
    assert set(schema["properties"]["dialect"]["enum"]) == FACTS.keys()
    assert set(CONTROL) == {name for name in FACTS if name.startswith("engine-")}


@pytest.mark.parametrize(
    "keys",
    [
        {"allow": "POST /x"},
        {"dialect": "openai-chat"},
        {"allow": "POST /x", "dialect": "openai"},
        {"allow": "POST /x", "dialect": "openai-chat", "query": {}},
        {"allow": "POST /x", "dialect": "openai-chat", "query": {"a": []}},
        {"allow": "POST /x", "dialect": "openai-chat", "deadlines": {}},
        {"allow": "POST /x", "dialect": "openai-chat", "upstream": "/y"},
    ],
)
def test_an_endpoint_says_what_it_must_and_nothing_else(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EndpointKeys.model_validate(keys)


def test_deadlines_are_durations() -> None:
    assert DeadlineKeys.model_validate({"first_byte": "300s"}).first_byte == "300s"
    with pytest.raises(ValidationError):
        DeadlineKeys.model_validate({"first_byte": 300})


def test_a_model_has_an_engine_and_a_name_there() -> None:
    assert ModelKeys.model_validate({"engine": "main", "served_as": "x"}).most_tokens is None
    with pytest.raises(ValidationError):
        ModelKeys.model_validate({"engine": "main"})
    with pytest.raises(ValidationError):
        ModelKeys.model_validate({"engine": "main", "served_as": "x", "thinking_switch": True})
