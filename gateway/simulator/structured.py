"""Answers that a schema constrains: the smallest JSON that fits, in tokens.

Enters: a JSON Schema, or the fields of a request that hold one. Leaves: tokens whose text the schema accepts, as
xgrammar makes a model emit; without a schema none.
"""

from __future__ import annotations

from typing import Any

import orjson

_TOKEN = 4
_SIMPLE: dict[str, Any] = {"string": "a", "integer": 0, "number": 0.5, "boolean": True, "null": None}


def tokens(schema: object) -> tuple[str, ...]:
    """Write an instance of a schema as tokens of a few characters."""
    if not isinstance(schema, dict):
        return ()
    text = orjson.dumps(_instance(schema, schema)).decode()
    return tuple(text[start : start + _TOKEN] for start in range(0, len(text), _TOKEN))


def schema_of(value: dict[str, Any]) -> object:
    """Find the schema in a chat's ``response_format``, a response's ``text.format`` or ``structured_outputs``."""
    text = value.get("text")
    for found in (value.get("response_format"), text.get("format") if isinstance(text, dict) else None):
        if isinstance(found, dict) and found.get("type") == "json_object":
            return {"type": "object"}
        if isinstance(found, dict) and found.get("type") == "json_schema":
            inner = found.get("json_schema", found)
            return inner.get("schema") if isinstance(inner, dict) else None
    outputs = value.get("structured_outputs")
    return outputs.get("json") if isinstance(outputs, dict) else None


def _instance(schema: dict[str, Any], root: dict[str, Any]) -> Any:  # noqa: ANN401  (a JSON value)
    """Make the first value that comes to mind; not every keyword is known."""
    if "$ref" in schema:
        found: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return _instance(found, root)
    if "const" in schema:
        return schema["const"]
    for name in ("enum", "anyOf", "oneOf", "allOf"):
        if name in schema:
            first = schema[name][0]
            return first if name == "enum" else _instance(first, root)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: _instance(member, root) for name, member in schema.get("properties", {}).items()}
    if kind == "array":
        return [_instance(schema.get("items", {}), root)] * schema.get("minItems", 1)
    return schema.get("minimum", _SIMPLE[kind])
