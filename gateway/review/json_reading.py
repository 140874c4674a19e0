"""Reads what a foreign server says in JSON, without believing any of it.

Enters: the bytes of an answer. Leaves: an object, empty where there is none, and members of it at a depth, ``None``
where one is missing. Nothing raises: a doctor who stumbles over an answer cannot tell of it.
"""

from __future__ import annotations

import json
from typing import Any


def read(body: bytes) -> dict[str, Any]:
    """Give the object of a body, empty for anything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Give the items of a list, none for anything else."""
    return value if isinstance(value, list) else []


def member(value: object, *path: str | int) -> Any:  # noqa: ANN401  (a JSON value)
    """Give what stands at a path of names and positions; ``None`` where the path ends early."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value
