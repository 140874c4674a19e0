from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from gateway.policy.schema import DIALECT, generate, render
from gateway.policy.source import read
from tests.policy.edits import CONTROL, EXAMPLES, INTERNAL, PARTNER, edited, example

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "policies").glob("*.yaml"))


def narrowed(new: Any, old: Any, path: str = "") -> list[str]:  # noqa: ANN401  (any part of a schema)
    """List where a schema refuses or does not know what an older one accepts; it may know more keys and words."""
    if isinstance(old, dict) and isinstance(new, dict):
        kept = {key: value for key, value in old.items() if value != [] and key != "description"}
        lost = [f"{path}/{key}" for key in kept if key not in new]
        lost += [f"{path}/required" for key in new.get("required", []) if key not in old.get("required", [])]
        return lost + [one for key in kept if key in new for one in narrowed(new[key], kept[key], f"{path}/{key}")]
    if path.endswith("/enum"):
        return [] if set(old) <= set(new) else [path]
    if path.endswith("/required"):
        return []  # what is required anew was listed above; what is so no longer narrows nothing
    if path.endswith("/oneOf"):
        return [f"{path}[{number}]" for number, shape in enumerate(old) if all(narrowed(one, shape) for one in new)]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = zip(canonical(new), canonical(old), strict=True)
        return [one for number, pair in enumerate(pairs) for one in narrowed(*pair, f"{path}[{number}]")]
    return [] if new == old else [path]


def canonical(items: list[Any]) -> list[Any]:
    """Sort schemas by what they say."""
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def test_the_committed_schema_is_the_generated_one() -> None:
    """If this fails, the document types changed: write ``vllm-gateway schema`` into the file, and review it."""
    assert (ROOT / "policies/schema/policy.v1.json").read_text("utf-8") == render()


def test_it_accepts_what_the_schema_of_the_first_release_accepts() -> None:
    """A later release may know more keys and words; what a file already says never changes its meaning."""
    reference = json.loads((EXAMPLES / "policy.v1.json").read_text("utf-8"))
    assert not narrowed(generate(), reference)


def test_it_is_a_valid_schema_of_its_draft() -> None:
    schema = generate()
    assert schema["$schema"] == DIALECT
    Draft202012Validator.check_schema(schema)


def parts(node: Any) -> list[dict[str, Any]]:  # noqa: ANN401  (any part of a schema)
    """List the schemas of all keys and items."""
    inner = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
    inner += node.get("oneOf", [])
    found = [one for one in inner if isinstance(one, dict) and ("description" in one or "type" in one or "enum" in one)]
    return found + [below for one in found for below in parts(one)]


def test_it_is_closed_and_described_throughout() -> None:
    everything = parts(generate())
    assert len(everything) > 100
    assert all(one.get("description") for one in everything)
    assert all(one["additionalProperties"] is False for one in everything if "properties" in one)


def test_it_stands_alone() -> None:
    assert "$ref" not in render()
    assert "$defs" not in render()


@pytest.mark.parametrize("name", [PARTNER, INTERNAL, CONTROL])
def test_the_worked_examples_are_valid(name: str) -> None:
    Draft202012Validator(generate()).validate(read(example(name), name).data)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_shipped_policies_are_valid_and_name_the_schema(path: Path) -> None:
    text = path.read_text("utf-8")
    Draft202012Validator(generate()).validate(read(text, path.name).data)
    first = text.splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema/policy.v1.json"
    assert (path.parent / first.partition("=")[2]).exists()


def test_policies_are_shipped() -> None:
    assert {path.stem for path in SHIPPED} >= {PARTNER, INTERNAL}


@pytest.mark.parametrize(
    "old, new",
    [
        ("public: true", "public: false"),
        ("    dialect: openai-models  ", "    engine: main\n    dialect: openai-models  "),
        ("GET /v1/models/{model}", "GET /v1/models/x"),
        ("operations:", "operation:"),
        ("      otherwise: refuse\n    special", "    special"),
        ("nobody:             {}", "nobody:             {address: 10.0.0.1}"),
        ("api_key: {}", "{}"),
    ],
)
def test_what_depends_on_other_keys_is_in_it_too(old: str, new: str) -> None:
    data = yaml.safe_load(edited(PARTNER, (old, new)))
    assert not Draft202012Validator(generate()).is_valid(data)
