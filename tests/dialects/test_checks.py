"""The words of a description; what they say of chat and embeddings is tested with those."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.checks import Inspection, check_for, closed_object, dropped, inside, refused, shown
from gateway.reasons import Malformed, Reason


def detail(description: dict[str, Any], value: Any) -> str | None:  # noqa: ANN401
    try:
        check_for(description, "x")(value, Inspection())
    except Malformed as fault:
        return f"{fault.param or 'x'} {fault.detail}"
    return None


@pytest.mark.parametrize(
    "description, value, expected",
    [
        ({"type": "string"}, 1, "x must be text"),
        ({"type": "string", "minLength": 1}, 1, "x must be text"),
        ({"type": "string", "enum": ["a"]}, "b", "x must be a"),
        ({"type": "string", "enum": ["b", "a"]}, 1, "x must be one of a, b"),
        ({"type": "string", "media": "image"}, 1, "x must be text"),
        ({"type": "string", "media": "base64"}, 1, "x must be text"),
        (
            {"type": "string", "media": "image"},
            "x",
            "x must be a data: URL of type image/(png|jpeg|jpg|gif|webp|bmp) in base64",
        ),
        ({"type": "boolean"}, 0, "x must be true or false"),
        ({"type": "integer"}, True, "x must be an integer"),
        ({"type": "integer", "minimum": 1}, 0, "x must be at least 1"),
        ({"type": "number", "maximum": 1}, 1.5, "x must be at most 1"),
        ({"type": "array"}, {}, "x must be a list"),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], "[1] must be text"),
        ({"type": "object"}, [], "x must be an object"),
        ({"type": "object", "values": {"type": "string"}}, {"a b": 1}, "a?b must be text"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"b": 1}, "b is not accepted here"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, [], "x must be an object"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": None}, "a is missing"),
        ({"type": "object", "select": "t", "of": {"a": {"properties": {}}}}, [], "x must be an object"),
        ({"type": "object", "select": "t", "of": {"a": {"properties": {}}}}, {"t": "b"}, "t must be one of a"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, 1, "x must be text or a list"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "a", None),
        ({"type": "array"}, [1, None], None),
        ({"type": "string", "minLength": 1}, "", "x must not be empty"),
        ({"type": "array", "minItems": 1}, [], "x must not be empty"),
        ({"type": "array", "maxItems": 1}, [1, 2], "x has more than 1 items"),
        ({"type": "object", "schema": True}, {"a": "b" * 70_000}, "x is a schema of more than 65536 bytes"),
        ({"type": "string", "schema": True}, "{", "x must be a JSON Schema"),
        ({"type": "string", "schema": True}, "{}", None),
        ({"type": "object", "select": "t", "default": "a", "of": {"a": {"properties": {}}}}, {}, None),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]}, [1, 0.5], None),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": None}, None),
    ],
)
def test_a_fault_says_what_was_wrong_and_where(
    description: dict[str, Any], value: object, expected: str | None
) -> None:
    assert detail(description, value) == expected


PART = {
    "type": "object",
    "select": "t",
    "never": ["c"],
    "of": {
        "a": {"required": ["a"], "properties": {"a": {"type": "string", "prompt": True}}},
        "b": {"properties": {"b": {"treatment": "drop"}}},
    },
}


@pytest.mark.parametrize(
    "part, expected",
    [
        ({"t": "a", "a": "x"}, None),
        ({"t": "a"}, "a is missing"),
        ({"t": ["a"], "a": "x"}, "t must be one of a, b"),
        ({"a": "x"}, "t must be one of a, b"),
        ({"t": "a", "a": "x", "b": 1}, "b does not belong to this kind of part"),
        ({"t": "a", "a": "x", "c": 1}, "c does not belong to this kind of part"),
        ({"t": "a", "a": "x", "d": 1}, "d is not accepted here"),
    ],
)
def test_an_object_of_several_kinds_holds_the_members_of_its_own(part: object, expected: str | None) -> None:
    assert detail(PART, part) == expected


def test_members_of_another_kind_are_refused_even_where_unlisted_names_are_dropped() -> None:
    """What is dropped could have made it that kind."""
    inspection = Inspection(drop_unlisted=True)
    check = check_for({"type": "array", "items": PART}, "x")
    check([{"t": "a", "a": "x", "d": 1}, {"t": "b", "b": 1}], inspection)
    assert list(inspection.dropped) == ["x.d", "x.b"]
    with pytest.raises(Malformed):
        check([{"t": "a", "a": "x", "c": 1}], inspection)


@pytest.mark.parametrize(
    "description, value",
    [
        ({"type": "string", "prompt": True}, "<|im_end|>"),
        ({"type": "string", "prompt": "json"}, r"\u003c|im_end|>"),
        ({"type": "object", "prompt": True}, {"a": ["<|im_end|>"]}),
        ({"type": "array", "items": {"type": "integer"}, "prompt": "tokens"}, [1]),
    ],
)
def test_special_tokens_are_looked_for_only_where_that_is_the_rule(description: dict[str, Any], value: object) -> None:
    check = check_for(description, "x")
    check(value, Inspection())
    with pytest.raises(Malformed):
        check(value, Inspection(special_tokens=True))


@pytest.mark.parametrize(
    "description, value",
    [
        ({"type": "string"}, "<|im_end|>"),
        ({"type": "string", "prompt": True}, "plain"),
        ({"type": "string", "enum": ["a"]}, "a"),
        ({"type": "string", "media": "image"}, "https://h.example/a"),
        ({"type": "boolean"}, False),
        ({"type": "integer", "minimum": 0}, 0),
        ({"type": "object", "values": {"type": "number"}, "prompt": True}, {"a": 1}),
        ({"type": "array", "items": {"type": "string"}, "prompt": "tokens"}, []),
        (
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "array"}}]},
            [[]],
        ),
    ],
)
def test_what_is_as_described_passes_the_strictest_look(description: dict[str, Any], value: object) -> None:
    strict = Inspection(special_tokens=True, media_hosts=frozenset({"h.example"}))
    if description.get("prompt") == "tokens":
        strict.special_tokens = False
    check_for(description, "x")(value, strict)


def test_the_place_of_a_fault_is_a_path() -> None:
    fault = Malformed(Reason.PARAMETER_INVALID, "d", param="[1].b")
    assert inside("a", fault).param == "a[1].b"
    assert inside("c", inside("a", fault)).param == "c.a[1].b"
    assert inside("a", Malformed(Reason.PARAMETER_INVALID)).param == "a"


@pytest.mark.parametrize(
    "name, safe",
    [
        ("messages[0].content", "messages[0].content"),
        ("a\r\nSet-Cookie: x", "a??Set-Cookie??x"),
        ("\N{EURO SIGN}", "?"),
        ("a" * 65, "a" * 64 + "..."),
        ("", ""),
    ],
)
def test_a_name_of_the_callers_is_shown_in_a_safe_form(name: str, safe: str) -> None:
    assert shown(name) == safe


def test_a_name_with_a_dot_is_refused_even_where_unlisted_names_are_dropped() -> None:
    """It could stand for a member of another field, and dropping the one would drop the other."""
    check = closed_object({}, "x")
    with pytest.raises(Malformed) as caught:
        check({"a.b": 1}, Inspection(drop_unlisted=True))
    assert caught.value.reason is Reason.PARAMETER_NOT_ACCEPTED


def test_at_most_a_hundred_names_are_dropped() -> None:
    check = closed_object({}, "")
    inspection = Inspection(drop_unlisted=True)
    check({f"n{number}": 0 for number in range(100)}, inspection)
    assert list(inspection.dropped)[:2] == ["n0", "n1"]
    with pytest.raises(Malformed):
        check({"n100": 0}, inspection)


def test_a_member_that_is_never_sent_is_looked_at_all_the_same() -> None:
    check = dropped(check_for({"type": "string"}, "a.b"), "a.b")
    inspection = Inspection()
    check("x", inspection)
    assert list(inspection.dropped) == ["a.b"]
    with pytest.raises(Malformed):
        check(1, inspection)


def test_what_would_change_the_meaning_of_an_answer_is_refused_with_its_reason_whatever_is_dropped_else() -> None:
    check = refused("Nothing is kept here.", "background")
    inspection = Inspection(drop_unlisted=True)
    check(False, inspection)
    assert list(inspection.dropped) == ["background"]
    with pytest.raises(Malformed) as caught:
        check(True, inspection)
    assert caught.value.reason is Reason.PARAMETER_NOT_ACCEPTED
    assert caught.value.detail == "is not accepted here. Nothing is kept here"


ROLE = {"type": "string", "enum": ["user", "tool"]}
TEXT = {"anyOf": [{"type": "string", "prompt": True}, {"type": "array"}]}
TURN = {"type": "object", "properties": {"role": ROLE, "content": TEXT, "id": {"type": "string"}}, "required": ["role"]}
INPUT = {"type": "object", "select": "type", "default": "turn", "of": {"turn": TURN, "end": {"properties": {}}}}


@pytest.mark.parametrize("turn", [TURN, INPUT], ids=["of one kind", "of several"])
@pytest.mark.parametrize(
    "item, fault",
    [
        ({"role": "user", "content": "a"}, None),
        ({"content": "a", "role": "tool"}, None),
        ({"role": "user", "content": []}, None),
        ({"role": "user"}, None),
        ({"role": "user", "content": "a", "id": "b"}, None),
        ({"role": "user", "content": "a", "mood": "b"}, "[1].mood is not accepted here"),
        ({"role": "user", "mood": "b"}, "[1].mood is not accepted here"),
        ({"role": "wizard", "content": "a"}, "[1].role must be one of tool, user"),
        ({"role": ["user"], "content": "a"}, "[1].role must be one of tool, user"),
        ({"role": "user", "content": 1}, "[1].content must be text or a list"),
        ({"id": "b", "content": "a"}, "[1].role is missing"),
        ("a", "[1] must be an object"),
    ],
)
def test_items_with_a_word_and_a_text_are_looked_at_like_any_other(
    turn: dict[str, Any],
    item: Any,  # noqa: ANN401
    fault: str | None,
) -> None:
    assert detail({"type": "array", "items": turn}, [{"role": "user", "content": "b"}, item]) == fault


def test_in_the_text_of_such_items_special_tokens_are_found_where_they_matter() -> None:
    check, items = check_for({"type": "array", "items": TURN}, "x"), [{"role": "user", "content": "<|im_end|>"}]
    check(items, Inspection())
    with pytest.raises(Malformed, match="special token") as raised:
        check(items, Inspection(special_tokens=True))
    assert raised.value.param == "[0].content"
    check([{"role": "user", "content": "im_end"}], Inspection(special_tokens=True))


@pytest.mark.parametrize(
    "word, text",
    [
        ({"type": "string", "enum": ["a"], "treatment": "drop"}, {"type": "string"}),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "treatment": "drop"}),
    ],
)
def test_of_such_items_nothing_is_passed_on_that_is_to_be_dropped(word: dict[str, Any], text: dict[str, Any]) -> None:
    inspection = Inspection()
    items = {"type": "object", "properties": {"a": word, "b": text}}
    check_for({"type": "array", "items": items}, "x")([{"a": "a", "b": "b"}], inspection)
    assert len(inspection.dropped) == 1


@pytest.mark.parametrize(
    "text, fault",
    [
        ({"type": "string", "minLength": 1}, "[0].b must not be empty"),
        ({"type": "string", "enum": ["c"]}, "[0].b must be c"),
        ({"type": "string", "schema": True}, "[0].b must be a JSON Schema"),
        ({"type": "string", "prompt": True}, "[0].c is missing"),
    ],
)
def test_of_such_items_no_text_passes_of_which_more_is_asked(text: dict[str, Any], fault: str) -> None:
    members = {"a": {"type": "string", "enum": ["a"]}, "b": text, "c": {"type": "integer"}}
    items = {"type": "object", "properties": members, "required": ["c"] if "prompt" in text else []}
    assert detail({"type": "array", "items": items}, [{"a": "a", "b": ""}]) == fault


def test_what_a_template_parses_is_searched_behind_its_escapes() -> None:
    arguments = {"type": "string", "prompt": "json"}
    items = {"type": "object", "properties": {"a": {"type": "string", "enum": ["a"]}, "b": arguments}}
    check = check_for({"type": "array", "items": items}, "x")
    with pytest.raises(Malformed, match="special token"):
        check([{"a": "a", "b": '"\\u003c|im_end|>"'}], Inspection(special_tokens=True))
