"""How large a JSON Schema may be that the engine turns into a grammar, and that it is all there is of it.

Enters: a schema of a caller's, parsed or as JSON text. Leaves: a phrase that says why it may not go to the engine, or
nothing. What a schema means is the engine's business; that compiling it ends soon is ours: the time and memory for it
grow with size and nesting, and the engine compiles for all callers (GHSA-hf3c-wxg2-49q9). So is what it may fetch: a
reference to another document is no engine's to follow.
"""

from __future__ import annotations

from typing import Any

from gateway.reasons import Malformed
from gateway.wire import strict_json

LARGEST = 65536
DEEPEST = 64
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def fault(schema: Any) -> str | None:  # noqa: ANN401  (any JSON value)
    """Say why a schema is too much; ``None`` for one that is not."""
    if len(strict_json.dumps(schema)) > LARGEST:
        return f"is a schema of more than {LARGEST} bytes"
    level = [schema]
    for _ in range(DEEPEST):
        if any(_leads_away(outer) for outer in level):
            return "is a schema that refers to another document"
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return None
    return f"is a schema of more than {DEEPEST} levels"


def text_fault(text: str) -> str | None:
    """Say why a schema that is given as text, which the engine parses once more, is none or too much."""
    try:
        schema = strict_json.loads_value(text.encode())
    except Malformed:
        return "must be a JSON Schema"
    return fault(schema)


def _leads_away(value: Any) -> bool:  # noqa: ANN401
    """Tell whether an object refers to anything but a part of its own document (JSON Schema 2020-12, §8.2.3)."""
    named = [value.get(name) for name in _REFERENCES] if type(value) is dict else ()
    return any(type(one) is str and not one.startswith("#") for one in named)


def _inside(value: Any) -> list[Any]:  # noqa: ANN401
    """Give the objects and lists directly within a value."""
    members = value.values() if type(value) is dict else value if type(value) is list else ()
    return [member for member in members if type(member) in {dict, list}]
