"""Only pages of listed origins may read answers, and no line permits cookies."""

from __future__ import annotations

import pytest

from gateway.wire.cors import KEPT_S, LONGEST_NAMES, MOST_NAMES, CorsRule

OK, OTHER = b"https://ok.example", b"https://evil.example"
RULE = CorsRule(["https://ok.example", "https://app.example:8443"])
ASK = (b"access-control-request-method", b"POST")


def said(lines: list[bytes] | tuple[bytes, ...]) -> dict[str, str]:
    """Take lines apart, each of which must be one and end as one."""
    fields = {}
    for line in lines:
        assert line.endswith(b"\r\n")
        assert line.count(b"\r\n") == 1
        name, _, value = line[:-2].decode().partition(": ")
        assert name not in fields
        fields[name] = value
    return fields


def test_a_listed_origin_may_read_and_sees_what_it_needs() -> None:
    fields = said(RULE.lines(OK))
    assert fields["access-control-allow-origin"] == "https://ok.example"
    assert fields["vary"] == "Origin"
    exposed = fields["access-control-expose-headers"].split(", ")
    assert {"x-request-id", "retry-after", "ratelimit", "x-ratelimit-remaining-tokens"} <= set(exposed)


@pytest.mark.parametrize(
    "origin", [None, b"", b"null", b"*", OTHER, b"https://ok.example/", b"https://OK.example", b"http://ok.example"]
)
def test_nobody_else_may_and_caches_are_told_that_it_differs(origin: bytes | None) -> None:
    assert said(RULE.lines(origin)) == {"vary": "Origin"}


def test_without_origins_no_answer_speaks_of_it() -> None:
    off = CorsRule(())
    assert off.lines(OK) == off.lines(None) == ()
    assert off.preflight(OK, [ASK], ["POST"]) is None


def test_no_line_ever_permits_cookies() -> None:
    preflight = RULE.preflight(OK, [ASK], ["POST"]) or []
    assert not [line for line in (*RULE.lines(OK), *preflight) if b"credentials" in line]


def test_a_preflight_is_told_the_methods_of_the_path_and_may_send_what_it_wants() -> None:
    raw = [ASK, (b"access-control-request-headers", b"authorization,content-type, x-stainless-os")]
    assert said(RULE.preflight(OK, raw, ["POST", "GET"]) or []) == {
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": "authorization, content-type, x-stainless-os",
        "access-control-max-age": str(KEPT_S),
    }


@pytest.mark.parametrize(
    "wanted",
    [
        b"",
        b"authorization,,x",
        b"x\x00y",
        b"a b",
        b"X-Upper",
        b"*\xff",
        b"x" * 129,
        b",".join([b"x"] * (MOST_NAMES + 1)),
        b"a," + b"x" * LONGEST_NAMES,
    ],
)
def test_names_that_are_none_or_too_many_are_not_repeated(wanted: bytes) -> None:
    fields = said(RULE.preflight(OK, [ASK, (b"access-control-request-headers", wanted)], ["POST"]) or [])
    assert "access-control-allow-methods" in fields
    assert "access-control-allow-headers" not in fields


@pytest.mark.parametrize(
    "origin, raw", [(OTHER, [ASK]), (None, [ASK]), (OK, []), (OK, [ASK, ASK]), (OK, [(b"x-method", b"POST")])]
)
def test_what_is_no_preflight_of_a_listed_origin_is_none(origin: bytes | None, raw: list[tuple[bytes, bytes]]) -> None:
    assert RULE.preflight(origin, raw, ["POST"]) is None
