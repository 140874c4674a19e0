"""The JSON Schema of a policy file, generated from the document types.

Enters: nothing. Leaves: one self-contained schema (draft 2020-12) for editors, closed throughout, a description for
every key. What a schema cannot say is said by ``compile``. The committed copy is ``policies/schema/policy.v1.json``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import GenerateJsonSchema

from gateway.policy.document import Document

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TITLE: Final = "vllm-gateway policy, version 1"

# The order in which a person reads a schema; any other keyword follows.
_ORDER: Final = (
    "$schema",
    "title",
    "description",
    "type",
    "enum",
    "const",
    "pattern",
    "properties",
    "propertyNames",
    "items",
    "required",
    "additionalProperties",
    "uniqueItems",
)
_NAMED: Final = frozenset({"properties", "$defs"})  # keywords whose keys are names, not keywords


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, saying what the file says: absent is not null, keys of mappings are names."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        bounds = {"minProperties": schema.get("min_length"), "maxProperties": schema.get("max_length")}
        return {
            "type": "object",
            "propertyNames": {"pattern": self.generate_inner(schema["keys_schema"])["pattern"]},
            "additionalProperties": self.generate_inner(schema["values_schema"]),
            **{keyword: bound for keyword, bound in bounds.items() if bound is not None},
        }


def generate() -> dict[str, Any]:
    """Give the schema as data."""
    raw = Document.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema = _plain(raw, raw.pop("$defs"))
    ordered: dict[str, Any] = _ordered({"$schema": DIALECT, **schema, "title": TITLE})
    return ordered


def render() -> str:
    """Give the schema as the text of the committed file."""
    return json.dumps(generate(), indent=1, ensure_ascii=False) + "\n"


def _plain(node: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401  (any part of a schema)
    """Write references out where they stand, and leave out titles and the types that constants have anyway."""
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _plain({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    constant = "const" in node or "enum" in node
    return {
        key: {name: _plain(part, definitions) for name, part in value.items()}
        if key in _NAMED
        else _plain(value, definitions)
        for key, value in node.items()
        if key != "title" and not (constant and key == "type")
    }


def _ordered(node: Any) -> Any:  # noqa: ANN401  (any part of a schema)
    """Put the keywords of every part into reading order; names keep the order of the document types."""
    if isinstance(node, list):
        return [_ordered(item) for item in node]
    if not isinstance(node, dict):
        return node
    rank = {key: number for number, key in enumerate(_ORDER)}
    keys = sorted(node, key=lambda key: rank.get(key, len(rank)))
    return {
        key: {name: _ordered(part) for name, part in node[key].items()} if key in _NAMED else _ordered(node[key])
        for key in keys
    }
