from __future__ import annotations

import json
from typing import Any

import pytest

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
        ({"$defs": {"N": {"type": "null"}}, "properties": {"n": {"$ref": "#/$defs/N"}}}, {"n": None}),
    ],
)
def test_the_smallest_answer_that_a_schema_accepts_is_written_in_tokens(
    schema: dict[str, Any], instance: object
) -> None:
    written = tokens(schema)
    assert json.loads("".join(written)) == instance
    assert max(len(token) for token in written) <= 4


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
