from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.json_schema import DEEPEST, LARGEST, fault, text_fault


def nested(levels: int) -> dict[str, Any]:
    """Give a schema of so many objects, one in the other."""
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"items": schema}
    return schema


def sized(size: int) -> dict[str, Any]:
    """Give a schema that is so many bytes long as JSON."""
    return {"title": "a" * (size - len('{"title":""}'))}


@pytest.mark.parametrize(
    "schema, expected",
    [
        ({}, None),
        ({"type": "object", "properties": {"a": {"enum": ["x", 1, None]}}}, None),
        (nested(DEEPEST), None),
        (nested(DEEPEST + 1), "is a schema of more than 64 levels"),
        ({"anyOf": [[nested(DEEPEST - 1)]]}, "is a schema of more than 64 levels"),
        ({"$defs": {"a": {"type": "null"}}, "$ref": "#/$defs/a"}, None),
        ({"properties": {"$ref": {"type": "string"}}}, None),
        (sized(LARGEST), None),
        (sized(LARGEST + 1), "is a schema of more than 65536 bytes"),
    ],
)
def test_a_schema_is_refused_when_compiling_it_could_take_long(schema: object, expected: str | None) -> None:
    assert fault(schema) == expected


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("to", ["http://169.254.169.254/a.json", "file:///etc/passwd", "other.json#/a", ""])
def test_a_schema_that_an_engine_would_have_to_fetch_is_refused(name: str, to: str) -> None:
    for schema in ({name: to}, {"properties": {"a": {"anyOf": [{name: to}]}}}):
        assert fault(schema) == "is a schema that refers to another document"


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"type": "object"}', None),
        ("{", "must be a JSON Schema"),
        ('{"a": 1, "a": 2}', "must be a JSON Schema"),
        ('{"items":' * 65 + "{}" + "}" * 65, "is a schema of more than 64 levels"),
    ],
)
def test_so_is_one_that_the_engine_reads_out_of_a_text(text: str, expected: str | None) -> None:
    assert text_fault(text) == expected
