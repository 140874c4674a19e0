"""How large a JSON Schema may be that the engine turns into a grammar.

Enters: a schema of a caller's, parsed or as JSON text. Leaves: a phrase that says why it may not go to the engine, or
nothing. What a schema means is the engine's business; that compiling it ends soon is ours: the time and memory for it
grow with size and nesting, and the engine compiles for all callers (GHSA-hf3c-wxg2-49q9).
"""

from __future__ import annotations

from typing import Any

from gateway.reasons import Malformed
from gateway.wire import strict_json

LARGEST = 65536
DEEPEST = 64


def fault(schema: Any) -> str | None:  # noqa: ANN401  (any JSON value)
    """Say why a schema is too much; ``None`` for one that is not."""
    if len(strict_json.dumps(schema)) > LARGEST:
        return f"is a schema of more than {LARGEST} bytes"
    return f"is a schema of more than {DEEPEST} levels" if _deep(schema) else None


def text_fault(text: str) -> str | None:
    """Say why a schema that is given as text, which the engine parses once more, is none or too much."""
    try:
        schema = strict_json.loads_value(text.encode())
    except Malformed:
        return "must be a JSON Schema"
    return fault(schema)


def _deep(schema: Any) -> bool:  # noqa: ANN401
    level = [schema]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:  # noqa: ANN401
    """Give the objects and lists directly within a value."""
    members = value.values() if type(value) is dict else value if type(value) is list else ()
    return [member for member in members if type(member) in {dict, list}]
