from __future__ import annotations

import pytest

from gateway.policy.text import has_pattern_characters, looks_like_pattern, nearest, secret, unfit_character


@pytest.mark.parametrize("text", ["", "plain", "Grüße aus Köln", "日本語", "a\u0301 combining", "100 €"])
def test_text_that_is_shown_as_what_it_is_is_fit(text: str) -> None:
    assert unfit_character(text) is None


@pytest.mark.parametrize(
    "text, index",
    [
        ("ab\u202ecd", 2),
        ("\u2066x", 0),
        ("x\u200b", 1),
        ("x\x00", 1),
        ("x\x85", 1),
        ("x\u2028", 1),
        ("x\ufeff", 1),
        ("x\ue000", 1),
        ("x\ud800", 1),
        ("x\uffff", 1),
        ("é\x1b[31m", 1),
        ("two\nlines", 3),
    ],
)
def test_a_character_that_shows_something_else_is_found(text: str, index: int) -> None:
    found = unfit_character(text)
    assert found is not None
    assert found[0] == index
    assert f"U+{ord(text[index]):04X}" in found[1]


def test_a_tab_is_called_a_tab() -> None:
    assert unfit_character("a\tb") == (1, "a tab: indent and separate with spaces")


def test_text_of_several_lines_may_have_line_ends_and_nothing_else() -> None:
    assert unfit_character("two\nlines", lines=True) is None
    assert unfit_character("two\n\rlines", lines=True) is not None


@pytest.mark.parametrize("text", ["os.environ/KEY", "OS.ENVIRON/KEY", "x ${KEY}", "${KEY:-x}"])
def test_a_reference_to_the_environment_is_told_where_secrets_go(text: str) -> None:
    assert "GATEWAY_" in (secret(text) or "")


@pytest.mark.parametrize(
    "text",
    [
        "vgw_0123456789abcdefABCDEF",
        "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_refused_without_repeating_it(text: str) -> None:
    sentence = secret(text)
    assert sentence is not None
    assert text not in sentence


@pytest.mark.parametrize("text", ["vgw", "a key of ours begins with vgw_", "costs $5", "eyJ", "environment"])
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert secret(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "acme-*",
        "gpt-4.*",
        "(a+)+$",
        "^acme$",
        "!acme",
        "~acme",
        "[a-z]+",
        "a.+b",
        r"\d+",
        "(?i)acme",
        "(a|b)",
        "/^a$/",
    ],
)
def test_globs_expressions_and_negations_look_like_patterns(text: str) -> None:
    assert looks_like_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        "gpt-4.1",
        "auth0|5f7c8ec7",
        "a+b@example.com",
        "https://login.example.com/realms/partners",
        "http://[::1]:8080/x",
        "org/model-7B",
        "/models/llama/",
        "CN=ml-users,OU=x",
        "team (ml)",
    ],
)
def test_ids_as_issuers_give_them_are_no_patterns(text: str) -> None:
    assert not looks_like_pattern(text)


def test_only_characters_of_patterns_count_as_such() -> None:
    assert has_pattern_characters("/v1/{id}")
    assert not has_pattern_characters("/v1/models")


@pytest.mark.parametrize(
    "word, meant",
    [
        ("tokens_per_minut", "tokens_per_minute"),
        ("tpm", "tokens_per_minute"),
        ("tmp", "tokens_per_minute"),
        ("rpm", "requests_per_minute"),
        ("Limits", "limits"),
    ],
)
def test_the_nearest_word_is_the_misspelt_or_abbreviated_one(word: str, meant: str) -> None:
    assert nearest(word, ["limits", "requests_per_minute", "tokens_per_minute", "tokens_per_day"]) == meant
