from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.simulator.errors import Refused
from gateway.simulator.structured import schema_of, tokens

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema, instance",
    [
        ({}, {}),
        (SCHEMA, {"a": "a"}),
        ({"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2}, [3, 3]),
        ({"type": "array", "items": {"type": "boolean"}}, [True]),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, 0.5),
        ({"enum": ["x", "y"]}, "x"),
        ({"const": 7}, 7),
        ({"type": ["string", "null"]}, "a"),
        ({"$defs": {"N": {"type": "null"}}, "properties": {"n": {"$ref": "#/$defs/N"}}}, {"n": None}),
    ],
)
def test_the_smallest_answer_that_a_schema_accepts_is_written_in_tokens(
    schema: dict[str, Any], instance: object
) -> None:
    written = tokens(schema)
    assert json.loads("".join(written)) == instance
    assert max(len(token) for token in written) <= 4


DOUBLED = {f"d{n}": {"properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}} for n in range(60)}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 1_000_000_000},
        {"$defs": {**DOUBLED, "d60": {}}, "$ref": "#/$defs/d0"},
        {"$ref": "#"},
        {"$ref": "#/$defs/none"},
        {"$ref": 5},
        {"enum": []},
        {"anyOf": [5]},
        {"type": "any"},
        {"type": []},
        {"type": {}},
        {"properties": 5},
        {"type": "array", "minItems": "5"},
        {"enum": [2**70]},
    ],
)
def test_a_schema_that_is_none_or_asks_for_too_much_is_refused_at_once(schema: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="schema"):
        tokens(schema)


def test_without_a_schema_there_is_nothing_to_say() -> None:
    assert tokens(None) == ()


@pytest.mark.parametrize(
    "value, schema",
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}, SCHEMA),
        ({"response_format": {"type": "json_schema", "json_schema": 1}}, None),
        ({"response_format": {"type": "json_object"}}, {"type": "object"}),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}, SCHEMA),
        ({"text": {"format": {"type": "text"}}}, None),
        ({"structured_outputs": {"json": SCHEMA}}, SCHEMA),
        ({"response_format": None, "text": None}, None),
    ],
)
def test_each_api_has_its_place_for_a_schema(value: dict[str, Any], schema: object) -> None:
    assert schema_of(value) == schema
