"""From the description of a value in a field table to a fast check of it.

Enters: a description in the words of JSON Schema (``type``, ``enum``, ``minimum``, ``maximum``, ``items``,
``properties``, ``required``, ``anyOf``, ``minLength: 1``, ``minItems: 1``, ``maxItems``) and some of our own:
``values`` (of an object with free names), ``select`` and ``of`` (the closed list of an object's kinds), ``default``
(the kind of one that does not say), ``never`` (names of other kinds, never merely dropped), ``treatment: drop``,
``prompt`` (the text reaches a template), ``schema`` (the engine makes a grammar of it) and ``media``. Leaves: closures
that raise ``Malformed`` with the place of the fault. Nothing is coerced; objects are closed unless they have neither
``properties`` nor ``of``; a ``null`` member is as good as none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any

from gateway.dialects import json_schema, media, special_tokens
from gateway.reasons import Malformed, Reason


@dataclass(slots=True)
class Inspection:
    """How strictly one body is looked at, and what was found to drop: dotted names, without positions in lists."""

    drop_unlisted: bool = False
    special_tokens: bool = False
    media_hosts: frozenset[str] = frozenset()
    dropped: dict[str, None] = field(default_factory=dict)

    def unlisted(self, path: str, name: str) -> None:
        """Take note of an unlisted member, or raise ``Malformed(PARAMETER_NOT_ACCEPTED)``.

        A name with a dot in it is always refused: it could not be told apart from a path. So is the hundred and
        first: each is named in the answer.
        """
        if not self.drop_unlisted or "." in name or len(self.dropped) >= _MOST_DROPPED:
            raise Malformed(Reason.PARAMETER_NOT_ACCEPTED, "is not accepted here", param=shown(name))
        self.dropped[f"{path}.{name}" if path else name] = None


Check = Callable[[Any, Inspection], None]
Description = Mapping[str, Any]

_ASKED_OF_TEXT = frozenset({"enum", "media", "minLength", "schema", "treatment"})
_LONGEST_SHOWN = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_.$\[\]-]")
_MOST_DROPPED = 100
_LEAST_INTEGER = -(2**63)
_GREATEST_INTEGER = 2**64 - 1
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
_NAMES: Mapping[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "array": "a list",
    "object": "an object",
}


def shown(name: str) -> str:
    """Give a name that a caller chose in a form that is safe in headers, logs and answers: ASCII, and not long."""
    return _safe(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}...")


@lru_cache(maxsize=1024)  # nearly all are names of fields
def _safe(name: str) -> str:
    return _UNSAFE.sub("?", name)


def inside(place: str, fault: Malformed) -> Malformed:
    """Prefix the place of a fault with where its value stands."""
    rest = fault.param or ""
    joint = "" if not rest or rest.startswith("[") else "."
    return Malformed(fault.reason, fault.detail, param=f"{place}{joint}{rest}")


def check_for(description: Description, path: str) -> Check:
    """Make the check of a described value; ``path`` is its dotted name."""
    if "anyOf" in description:
        return _any_of(description["anyOf"], path)
    kind = description["type"]
    if kind == "string":
        return _text(description)
    if kind == "boolean":
        return _boolean
    if kind in {"integer", "number"}:
        return _number(description)
    if kind == "array":
        return _list(description, path)
    if "select" in description:
        return _selected(description, path)
    if "properties" in description:
        return closed_object(_members(description, path), path, description.get("required", ()))
    return _free_object(description, path)


def dropped(check: Check, dotted: str) -> Check:
    """Make the check of a member that is looked at and then never sent."""

    def drop(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        check(value, inspection)
        inspection.dropped[dotted] = None

    return drop


def refused(why: str, dotted: str) -> Check:
    """Make the check of a field that is refused even where unlisted ones are dropped; ``false`` asks for nothing."""

    def refuse(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        if value is not False:
            raise Malformed(Reason.PARAMETER_NOT_ACCEPTED, f"is not accepted here. {why.removesuffix('.')}")
        inspection.dropped[dotted] = None

    return refuse


def closed_object(members: Mapping[str, Check], path: str, required: Iterable[str] = ()) -> Check:
    """Make the check of an object that may hold the given members and no other."""
    needed = tuple(required)

    def check(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        if type(value) is not dict:
            raise _invalid("must be an object")
        for name, item in value.items():
            member = members.get(name)
            if member is None:
                inspection.unlisted(path, name)
            elif item is not None and member is not _pass:
                try:
                    member(item, inspection)
                except Malformed as fault:
                    raise inside(name, fault) from None
        for name in needed:
            if value.get(name) is None:
                raise Malformed(Reason.PARAMETER_INVALID, "is missing", param=name)

    return check


def _members(description: Description, path: str) -> dict[str, Check]:
    members: dict[str, Check] = {}
    for name, member in description["properties"].items():
        dotted = f"{path}.{name}"
        members[name] = dropped(_pass, dotted) if member.get("treatment") == "drop" else check_for(member, dotted)
    return members


def _selected(description: Description, path: str) -> Check:
    select = description["select"]
    kinds = description["of"]
    own = {select: _pass}
    # vLLM tells a part without a type, and some with one, by the names in it: a foreign name is never merely dropped.
    foreign = dict.fromkeys([*kinds, *description.get("never", ())], _foreign) if "never" in description else {}
    checks = {
        kind: closed_object({**foreign, **own, **_members(of, path)}, path, of.get("required", ()))
        for kind, of in kinds.items()
    }
    known = ", ".join(sorted(kinds))
    default = description.get("default")

    def check(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        if type(value) is not dict:
            raise _invalid("must be an object")
        kind = value.get(select, default)
        chosen = checks.get(kind) if type(kind) is str else None
        if chosen is None:
            raise Malformed(Reason.PARAMETER_INVALID, f"must be one of {known}", param=select)
        chosen(value, inspection)

    return check


def _pass(_value: Any, _inspection: Inspection) -> None:  # noqa: ANN401
    """Accept: the value was looked at before."""


def _foreign(_value: Any, _inspection: Inspection) -> None:  # noqa: ANN401
    raise _invalid("does not belong to this kind of part")


def _free_object(description: Description, path: str) -> Check:
    values = check_for(description["values"], path) if "values" in description else None
    prompt = "prompt" in description
    schema = "schema" in description

    def check(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        if type(value) is not dict:
            raise _invalid("must be an object")
        if schema and (fault := json_schema.fault(value)):
            raise _invalid(fault)
        if values is not None:
            for name, item in value.items():
                try:
                    values(item, inspection)
                except Malformed as found:
                    raise inside(shown(name), found) from None
        if prompt and inspection.special_tokens and special_tokens.in_value(value):
            raise _special_token()

    return check


def _list(description: Description, path: str) -> Check:
    described = description.get("items", {})
    item_check = check_for(described, path) if described else _pass
    word, words, text = _usual(described)
    tokens = description.get("prompt") == "tokens"
    least = description.get("minItems", 0)
    most = description.get("maxItems", float("inf"))

    def check(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        if type(value) is not list:
            raise _invalid("must be a list")
        if not least <= len(value) <= most:
            raise _invalid(f"has more than {most} items" if value else "must not be empty")
        if tokens and inspection.special_tokens:
            raise _invalid("must be text: token ids can spell special tokens")
        strict = inspection.special_tokens
        for index, item in enumerate(value):
            if (
                type(item) is dict
                and len(item) == 2  # noqa: PLR2004  (these two, and none besides)
                and type(said := item.get(text)) is str
                and type(kind := item.get(word)) is str
                and kind in words
                and not (strict and special_tokens.in_text(said))
            ):
                continue  # a role and a text, as most messages are: looked at without a call
            try:
                item_check(item, inspection)
            except Malformed as fault:
                raise inside(f"[{index}]", fault) from None

    return check


def _usual(description: Description) -> tuple[str, frozenset[str], str]:
    """Give the two members that most objects in a list have: a word of a closed list, its words, and any text.

    Where the described ones are not so, nothing has both members.
    """
    of: Description = description.get("of", {}).get(description.get("default"), description)
    members = of.get("properties", {})
    word = next((name for name, member in members.items() if "enum" in member and "treatment" not in member), "")
    text = next((name for name, member in members.items() if _is_any_text(member)), "")
    if not {word, text}.issuperset(of.get("required", ())):
        return "", frozenset(), ""
    return word, frozenset(members[word]["enum"] if word else ()), text


def _is_any_text(description: Description) -> bool:
    """Tell whether every text is accepted, but for special tokens where they matter."""
    if "anyOf" in description:
        return any(map(_is_any_text, description["anyOf"]))
    asked = _ASKED_OF_TEXT.isdisjoint(description) and description.get("prompt", True) is True
    return asked and description.get("type") == "string"


def _any_of(descriptions: Iterable[Description], path: str) -> Check:
    choices: dict[type, Check] = {}
    lists: dict[type, Check] = {}
    allowed: dict[str, None] = {}
    for description in descriptions:
        allowed[_NAMES[description["type"]]] = None
        check = check_for(description, path)
        for kind in _TYPES[description["type"]]:
            choices.setdefault(kind, check)
        for kind in _TYPES[description["items"]["type"]] if "type" in description.get("items", ()) else ():
            lists[kind] = check
    wanted = " or ".join(allowed)

    def choose(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        kind = type(value)
        chosen = choices.get(kind)
        if chosen is None:
            raise _invalid(f"must be {wanted}")
        if kind is list and value:
            chosen = lists.get(type(value[0]), chosen)
        chosen(value, inspection)

    return choose


def _text(description: Description) -> Check:
    words = frozenset(description.get("enum", ()))
    if words:
        return _word(words)
    kind = description.get("media")
    if kind in {"image", "audio"}:
        return _media_url(kind)
    holds = {True: special_tokens.in_text, "json": special_tokens.in_json_text}.get(description.get("prompt", False))
    filled = "minLength" in description
    schema = "schema" in description

    if not filled and not schema and holds is None:
        return _any_text

    def check(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        if type(value) is not str:
            raise _invalid("must be text")
        if filled and not value:
            raise _invalid("must not be empty")
        if schema and (fault := json_schema.text_fault(value)):
            raise _invalid(fault)
        if holds is not None and inspection.special_tokens and holds(value):
            raise _special_token()

    return check


def _any_text(value: Any, _inspection: Inspection) -> None:  # noqa: ANN401
    if type(value) is not str:
        raise _invalid("must be text")


def _word(words: frozenset[str]) -> Check:
    listed = ", ".join(sorted(words))

    def check(value: Any, _inspection: Inspection) -> None:  # noqa: ANN401
        if type(value) is not str or value not in words:
            raise _invalid(f"must be one of {listed}" if len(words) > 1 else f"must be {listed}")

    return check


def _media_url(kind: str) -> Check:
    def check(value: Any, inspection: Inspection) -> None:  # noqa: ANN401
        if type(value) is not str:
            raise _invalid("must be text")
        fault = media.url_fault(value, kind, inspection.media_hosts)
        if fault is not None:
            raise _invalid(fault)

    return check


def _boolean(value: Any, _inspection: Inspection) -> None:  # noqa: ANN401
    if type(value) is not bool:
        raise _invalid("must be true or false")


def _number(description: Description) -> Check:
    types = _TYPES[description["type"]]
    named = _NAMES[description["type"]]
    least = description.get("minimum", _LEAST_INTEGER)
    greatest = description.get("maximum", _GREATEST_INTEGER)

    def check(value: Any, _inspection: Inspection) -> None:  # noqa: ANN401
        kind = type(value)
        if kind not in types or (kind is float and not isfinite(value)):
            raise _invalid(f"must be {named}")
        if value < least:
            raise _invalid(f"must be at least {least}")
        if value > greatest:
            raise _invalid(f"must be at most {greatest}")

    return check


def _invalid(detail: str) -> Malformed:
    return Malformed(Reason.PARAMETER_INVALID, detail)


def _special_token() -> Malformed:
    return _invalid("holds a special token of chat templates")
