"""Answers that a schema constrains: the smallest JSON that fits, in tokens.

Enters: a JSON Schema, or the fields of a request that hold one. Leaves: tokens whose text the schema accepts, as
xgrammar makes a model emit; without a schema none. A schema that is none, or that asks for too much, is ``Refused``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from gateway.simulator.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = 4
_MOST_VALUES = 10_000
"""Values within one answer: more than any model here says."""
_SIMPLE: dict[str, Any] = {"string": "a", "integer": 0, "number": 0.5, "boolean": True, "null": None}


def tokens(schema: object) -> tuple[str, ...]:
    """Write an instance of a schema as tokens of a few characters. Raises ``Refused``."""
    if not isinstance(schema, dict):
        return ()
    try:
        text = orjson.dumps(_instance(schema, schema, iter(range(_MOST_VALUES)))).decode()
    except (AttributeError, LookupError, RecursionError, StopIteration, TypeError) as error:
        raise Refused("The schema cannot be made a grammar, or asks for too much.") from error
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


def _instance(schema: dict[str, Any], root: dict[str, Any], room: Iterator[int]) -> Any:  # noqa: ANN401  (a JSON value)
    """Make the first value that comes to mind; not every keyword is known. ``room``: as many values as may be made."""
    next(room)
    if "$ref" in schema:
        found: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return _instance(found, root, room)
    if "const" in schema:
        return schema["const"]
    for name in ("enum", "anyOf", "oneOf", "allOf"):
        if name in schema:
            first = schema[name][0]
            return first if name == "enum" else _instance(first, root, room)
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: _instance(member, root, room) for name, member in schema.get("properties", {}).items()}
    if kind == "array":
        return [_instance(schema.get("items", {}), root, room) for _ in range(schema.get("minItems", 1))]
    return schema.get("minimum", _SIMPLE[kind])
