"""From plain data to the typed document, or to sentences that a reviewer can act on.

Enters: a ``Tree``. Leaves: ``Document``, or a ``PolicyError`` that names every misspelt key with the nearest valid one,
every missing key with what it is for, and every value that misses its form. Whether the parts agree with each other is
not judged here.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from gateway.policy.document import Document
from gateway.policy.forms import REFUSED
from gateway.policy.schema import generate
from gateway.policy.source import PolicyError
from gateway.policy.text import NO_PATTERNS, has_pattern_characters, nearest, unfit_character

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails

    from gateway.policy.source import Path, Problem, Tree

_MAPPING: Final = "write a mapping here: keys with values"
_KINDS: Final = {
    "string_type": "write text here; quote it if it looks like a number, true or false",
    "int_type": "write a whole number here, in plain digits: no quotes, underscores, fraction or unit",
    "tuple_type": "write a list here, such as [a, b]",
    "list_type": "write a list here, each item on a line that begins with -",
    "dict_type": _MAPPING,
    "too_short": "an empty list or mapping is an error: name something, or remove the key",
    "too_long": "write exactly one key here",
}
_NO_VALUE: Final = "this key has no value: write one, or remove the key"
_SHAPES: Final = ("<0>", "<1>", "<2>")  # pydantic's names for the shapes of a value that has several
_HOSTILE: Final = frozenset({"body", "sent", "ask"})  # keys of a case that hold whatever a caller may send


def type_document(tree: Tree) -> Document:
    """Type the data of a file; raises ``PolicyError`` with every problem found."""
    try:
        return Document.model_validate(tree.data)
    except ValidationError as error:
        raise PolicyError(_problem(tree, details) for details in error.errors(include_url=False)) from None


def retyped(document: Document, area: str, name: str, entry: Any) -> Document:  # noqa: ANN401  (data of a file)
    """Type one entry of an area anew, or leave it out for ``None``, and keep what is typed already.

    Raises ``PolicyError`` without a place: what is asked for is whether the entry can be typed at all.
    """
    entries = {**getattr(document, area)}
    if entry is None:
        del entries[name]
    else:
        try:
            entries[name] = _typed_entry(area).validate_python(entry)
        except ValidationError:
            raise PolicyError(()) from None
    if not entries:
        raise PolicyError(())
    return document.model_copy(update={area: entries})


@cache
def _typed_entry(area: str) -> TypeAdapter[Any]:
    """Give the type of the entries of an area."""
    stated = Document.model_fields[area].annotation
    mapping = next(one for one in (stated, *get_args(stated)) if get_origin(one) is dict)
    return TypeAdapter(get_args(mapping)[1])


def unfit(tree: Tree) -> list[Problem]:
    """Find keys without a value, and text that is not shown as what it is: what no key of a file may hold."""
    return list(_unfit(tree, tree.data, ()))


def _unfit(tree: Tree, data: Any, path: Path) -> Iterator[Problem]:  # noqa: ANN401  (data of a file)
    if path[:2] == ("cases", "expect") and path[-1] in _HOSTILE:
        return
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _unfit_text(tree, key, (*path, key))
            yield from _unfit(tree, value, (*path, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _unfit(tree, item, (*path, index))
    elif data is None:
        yield tree.problem(path, _NO_VALUE)
    elif isinstance(data, str):
        yield from _unfit_text(tree, data, path)


def _unfit_text(tree: Tree, text: str, path: Path) -> Iterator[Problem]:
    prose = path[0] in {"summary", "operations"} or (path[0], path[-1]) == ("cases", "name")
    if found := unfit_character(text, lines=prose):
        yield tree.problem(path, found[1])


def _problem(tree: Tree, details: ErrorDetails) -> Problem:
    """Turn one of pydantic's errors into a problem at its place."""
    path, schema = _follow(tree.data, details["loc"])
    kind, given, facts = details["type"], details["input"], details.get("ctx", {})
    if kind == "missing":
        key = str(details["loc"][-1])
        return tree.problem((*path, key), f"`{key}` is missing: {schema['properties'][key]['description']}")
    if given is None:
        return tree.problem(path, _NO_VALUE)
    if kind == REFUSED:
        return tree.problem((*path, facts["at"]) if "at" in facts else path, details["msg"])
    if kind == "extra_forbidden":
        return tree.problem(path, _unknown_key(str(path[-1]), schema))
    if kind == "literal_error":
        return tree.problem(path, _unknown_word(given, facts["expected"]))
    if kind == "model_type":
        keys = schema["properties"]
        return tree.problem(path, f"{_MAPPING}, such as `{nearest(str(path[-1]), keys)}` (of {', '.join(keys)})")
    if kind == "greater_than_equal":
        return tree.problem(path, f"the smallest number here is {facts['ge']}")
    return tree.problem(path, _KINDS[kind])


def _unknown_key(key: str, schema: dict[str, Any]) -> str:
    keys = schema["properties"]
    return f"there is no key `{key}` here; the nearest is `{nearest(key, keys)}` (of {', '.join(keys)})"


def _unknown_word(given: object, expected: str) -> str:
    words = expected.split("'")[1::2]
    listed = ", ".join(f"`{word}`" for word in words)
    if not isinstance(given, str):
        return f"write one of {listed} here"
    if has_pattern_characters(given):
        return f"{NO_PATTERNS}; write one of {listed} here"
    return f"`{given}` is no word of this format; the nearest is `{nearest(given, words)}` (of {listed})"


_schema = cache(generate)


def _follow(data: Any, location: tuple[Any, ...]) -> tuple[Path, dict[str, Any]]:  # noqa: ANN401  (data of a file)
    """Follow pydantic's location into the data, and into the schema of the last mapping that it knows there.

    Besides keys and indexes a location holds ``<n>`` for the n-th of several shapes, and ``[key]`` for a key itself.
    """
    path: list[Any] = []
    schema = _schema()
    for part in location:
        if (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            data = data[part]
            path.append(part)
            named = schema.get("properties", {}).get(part)
            schema = named or schema.get("additionalProperties") or schema.get("items") or schema
        elif part in _SHAPES:
            schema = schema["oneOf"][_SHAPES.index(part)]
    return tuple(path), schema
