from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.policy.source import DEEPEST, LARGEST_FILE, Mark, PolicyError, Problem, Tree, dotted, read


def value(text: str) -> Any:  # noqa: ANN401  (whatever stands there)
    """Read one value."""
    return read(f"key: {text}\n", "f").data["key"]


def refused(text: str) -> tuple[Problem, ...]:
    """Give the problems of a text that must be refused."""
    with pytest.raises(PolicyError) as caught:
        read(text, "policy.yaml")
    return caught.value.problems


@pytest.mark.parametrize(
    "text, expected",
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-1", -1),
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("0.25", 0.25),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
    ],
)
def test_plain_scalars_are_read_by_the_core_schema(text: str, expected: object) -> None:
    got = value(text)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "2027-01-31",
        "12:30:45",
        "1_000",
        "30s",
        "2MiB",
        "1.2.3",
        "=",
        "0.1.0",
        "-",
        "1e",
        "e5",
    ],
)
def test_what_other_readers_take_for_something_else_is_text(text: str) -> None:
    assert value(f"[{text}]" if text != "-" else "'-'") in ([text], text)


@pytest.mark.parametrize("text", ["'true'", '"12"', "'null'", "'0x1F'", '"1e400"', "|\n  true", ">-\n  12"])
def test_quoted_scalars_are_text(text: str) -> None:
    assert isinstance(value(text), str)


@pytest.mark.parametrize("text", ["0x1F", "0o17", "017", "-01", "+1", ".5", "1.", ".inf", "-.INF", ".nan", "0b1"])
def test_numbers_that_readers_disagree_about_are_refused(text: str) -> None:
    (problem,) = refused(f"key: {text}\n")
    assert (problem.line, problem.column, problem.where) == (1, 6, "key")
    assert "disagree" in problem.sentence


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809", "1" * 5000, "1e400"])
def test_numbers_that_json_cannot_carry_are_refused(text: str) -> None:
    assert "too large" in refused(f"key: {text}\n")[0].sentence


@pytest.mark.parametrize("text", ["True", "FALSE", "Null", "NULL"])
def test_a_word_in_another_case_is_refused_with_the_right_spelling(text: str) -> None:
    assert f"`{text.lower()}`" in refused(f"key: {text}\n")[0].sentence


@pytest.mark.parametrize(
    "text, line, column, words",
    [
        ("a: 1\na: 2\n", 2, 1, "`a` stands here twice; the first is on line 1"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", 4, 3, "`b` stands here twice"),
        ("a: {b: 1, 'b': 2}\n", 1, 11, "stands here twice"),
        ("a: &x [1]\n", 1, 4, "the anchor &x"),
        ("a: &x 1\nb: *x\n", 2, 4, "the alias *x"),
        ("a: !!str 1\n", 1, 4, "the tag tag:yaml.org,2002:str"),
        ("a: ! 1\n", 1, 4, "the tag"),
        ("a: !env KEY\n", 1, 4, "the tag !env"),
        ("a:\n  <<: {b: 1}\n", 2, 3, "the merge key <<"),
        ("a: 1\n---\nb: 2\n", 2, 1, "a second YAML document"),
        ("%YAML 1.1\n---\na: 1\n", 1, 1, "directives"),
        ("%TAG ! tag:x:\n---\na: 1\n", 1, 1, "directives"),
        ("a:\n\tb: 1\n", 2, 1, "a tab"),
        ("a: 1 \t# why\n", 1, 6, "a tab"),
        ("\ufeffa: 1\n", 1, 1, "byte order mark"),
        ("a: 1 # \u202e\n", 1, 8, "U+202E"),
        ("a: \x00\n", 1, 4, "U+0000"),
        ("a: 'x\u2028y'\n", 1, 6, "U+2028"),
        ("", 1, 1, "the file is empty"),
        ("# nothing\n", 1, 1, "the file is empty"),
        ("---\n", 1, 1, "the file is empty"),
        ("- a\n- b\n", 1, 1, "a mapping of keys"),
        ("just text\n", 1, 1, "a mapping of keys"),
        ("1: a\n", 1, 1, "a key must be text"),
        ("true: a\n", 1, 1, "a key must be text"),
        ("~: a\n", 1, 1, "a key must be text"),
        ("[a, b]: c\n", 1, 1, "a key must be text"),
        ("? {a: b}\n: c\n", 1, 3, "a key must be text"),
        ("a:\n  b: 1\n   c: 2\n", 3, 5, "not well-formed YAML"),
        ("a: [1, 2\nb: 3\n", 2, 2, "not well-formed YAML"),
        ("a: 'open\n", 2, 1, "not well-formed YAML"),
        ("a: @b\n", 1, 4, "not well-formed YAML"),
        ("a: os.environ/KEY\n", 1, 4, "no references to the environment"),
        ("a:\n- x: ${KEY}\n", 2, 6, "no references to the environment"),
        ("os.environ/KEY: a\n", 1, 1, "no references to the environment"),
        ("a: vgw_0123456789abcdef01234567\n", 1, 4, "looks like a secret"),
    ],
)
def test_yaml_that_is_not_boring_is_refused_at_its_place(text: str, line: int, column: int, words: str) -> None:
    found = [(problem.line, problem.column) for problem in refused(text) if words in problem.sentence]
    assert found == [(line, column)], refused(text)


def test_windows_line_ends_are_line_ends() -> None:
    tree = read("a: 1\r\nb: x\r\n", "f")
    assert tree.data == {"a": 1, "b": "x"}
    assert tree.mark(("b",)) == Mark(2, 1)


def test_all_problems_of_a_file_come_together_and_in_order() -> None:
    found = refused("a: !x 1\nb: &y 2\nc: 0x1\nc: 3\n")
    assert [problem.line for problem in found] == [1, 2, 3, 4]


def test_problems_before_broken_syntax_are_told_too() -> None:
    assert [problem.line for problem in refused("a: !x 1\nb: [\n")] == [1, 3]


def test_a_file_of_reasonable_length_is_read_and_a_longer_one_is_not() -> None:
    filler = "#" * (LARGEST_FILE - 5)
    assert read(f"a: 1\n{filler}", "f").data == {"a": 1}
    assert "longer than" in refused(f"a: 1\n{filler}#")[0].sentence


def test_nesting_has_an_end() -> None:
    def nested(levels: int) -> str:
        return "a: " + "[" * levels + "]" * levels + "\n"

    assert read(nested(DEEPEST - 1), "f").data
    assert "nested deeper" in refused(nested(DEEPEST))[0].sentence
    assert "nested deeper" in refused(nested(200))[0].sentence


def test_every_key_and_item_has_its_place() -> None:
    tree = read("a:\n  b: [x, {c: 1}]\n", "f")
    places = {path: (mark.line, mark.column) for path, mark in tree.marks.items()}
    assert places == {
        (): (1, 1),
        ("a",): (1, 1),
        ("a", "b"): (2, 3),
        ("a", "b", 0): (2, 7),
        ("a", "b", 1): (2, 10),
        ("a", "b", 1, "c"): (2, 11),
    }


def test_a_path_that_is_not_in_the_file_is_placed_at_the_nearest_one_around_it() -> None:
    tree = Tree("f", {}, {(): Mark(1, 1), ("a",): Mark(3, 5)})
    assert tree.problem(("a", "b", 0), "is missing") == Problem("f", 3, 5, "a.b[0]", "is missing")
    assert tree.problem(("z",), "is missing").line == 1


def test_a_problem_reads_like_one_of_a_compiler() -> None:
    assert str(Problem("p.yaml", 3, 5, "a.b[0]", "is missing")) == "p.yaml:3:5: a.b[0]: is missing"
    assert str(Problem("p.yaml", 1, 1, "", "is empty")) == "p.yaml:1:1: is empty"
    assert str(PolicyError([Problem("p", 2, 1, "", "b"), Problem("p", 1, 1, "", "a")])) == "p:1:1: a\np:2:1: b"


def test_paths_are_written_with_dots_and_indexes() -> None:
    assert dotted(()) == ""
    assert dotted(("cases", "expect", 3, "permit", "sent")) == "cases.expect[3].permit.sent"


def test_the_data_is_kept_out_of_representations() -> None:
    assert "prompt" not in repr(read("a: prompt\n", "f"))


def test_a_float_stays_finite() -> None:
    assert math.isfinite(value("1e308"))
