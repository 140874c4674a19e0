"""JSON as every parser reads it, or not at all.

Enters: the bytes of a body. Leaves: one object in which nothing is ambiguous (RFC 8259 with the rules of I-JSON, RFC
7493 §2): UTF-8 without a byte order mark, no lone surrogates, unique names at every depth, finite numbers, integers
that every writer can write, bounded depth, nothing after the value. What ``loads`` accepts ``dumps`` can write.
Neither knows what a body means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jiter
import orjson

from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

# Deeper than any JSON Schema seen in tools, and far below the recursion of every reader behind us.
DEEPEST = 100

dumps: Callable[[Any], bytes] = orjson.dumps
"""Writes what ``loads`` accepted, or what was built from it."""

_LEAST_INTEGER = -(2**63)
_GREATEST_INTEGER = 2**64 - 1
_INFINITIES = frozenset({float("inf"), float("-inf")})


def loads(data: bytes) -> dict[str, Any]:
    """Parse one JSON object. Raises ``Malformed(BODY_MALFORMED)`` with the position, never the content."""
    value = loads_value(data)
    if type(value) is not dict:
        raise Malformed(Reason.BODY_MALFORMED, "the body is not a JSON object")
    return value


def loads_value(data: bytes) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    """Parse one JSON value of any kind. Raises ``Malformed(BODY_MALFORMED)`` as ``loads`` does."""
    try:
        value = jiter.from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        raise Malformed(Reason.BODY_MALFORMED, _detail(str(error))) from None
    if type(value) is dict:
        _check(value, 1)
    else:
        _check((value,), 0)
    return value


def _check(container: Any, depth: int) -> None:  # noqa: ANN401
    """Refuse what jiter reads and others do not: 1e400 as infinity, endless integers, needless depth.

    The cost of a walk grows with the number of values, that of a search in the bytes with every prompt and image.
    """
    if depth > DEEPEST:
        raise Malformed(Reason.BODY_MALFORMED, f"the body is nested more than {DEEPEST} levels deep")
    for item in container.values() if type(container) is dict else container:
        kind = type(item)
        if kind is str:
            continue
        if kind is dict or kind is list:
            _check(item, depth + 1)
        elif kind is int:
            if not _LEAST_INTEGER <= item <= _GREATEST_INTEGER:
                raise Malformed(Reason.BODY_MALFORMED, "an integer does not fit into 64 bits")
        elif kind is float and item in _INFINITIES:
            raise Malformed(Reason.BODY_MALFORMED, "a number is too large")


def _detail(message: str) -> str:
    """Give the parser's message without content: its only phrase that quotes the body is the one on repeated names."""
    if message.startswith("Detected duplicate key"):
        return "a member name occurs twice" + message[message.rindex(" at line ") :]
    return message
