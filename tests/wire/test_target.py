from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.reasons import Malformed, Reason
from gateway.wire.target import LONGEST_TARGET, Target, read_target

CANONICAL = [
    (b"/", b"/", None),
    (b"/v1/models", b"/v1/models", None),
    (b"/v1/models/", b"/v1/models/", None),
    (b"/v1/models.", b"/v1/models.", None),
    (b"/v1/models/org/name-1.5_b:q4@main", b"/v1/models/org/name-1.5_b:q4@main", None),
    (b"/.well-known/x", b"/.well-known/x", None),
    (b"/a..b/c.", b"/a..b/c.", None),
    (b"/...", b"/...", None),
    (b"/v1/models?", b"/v1/models", b""),
    (b"/v1/messages?beta=true", b"/v1/messages", b"beta=true"),
    (b"/v1?x=%2e%2e/..//;?", b"/v1", b"x=%2e%2e/..//;?"),
]

MALFORMED = {
    "empty": b"",
    "no leading slash (path-064)": b"v1/models",
    "userinfo (path-063)": b"@evil.example/v1/models",
    "query alone (path-065)": b"?/v1/models",
    "asterisk-form": b"*",
    "authority-form": b"127.0.0.1:8000",
    "absolute-form (path-060)": b"http://gateway.example/v1/models",
    "fragment (path-007)": b"/v1/models#",
    "fragment in query": b"/v1/models?a#b",
    "backslash (path-030)": b"/v1\\models",
    "raw 8-bit byte (path-067)": b"/v1/mod\xe9ls",
    "full-width letter (path-071)": "/v1/\uff4dodels".encode(),
    "space": b"/v1/models HTTP/1.1",
    "tab": b"/v1/\tmodels",
    "NUL": b"/v1/models\x00",
    "DEL": b"/v1/models\x7f",
    "line feed at the end": b"/v1/models\n",
    "request splitting (path-074)": b"/v1/models HTTP/1.1\r\nX-Smuggle: a",
    "dangling percent (path-070)": b"/%",
    "half an escape": b"/a%2",
    "no hexadecimal digits (path-069)": b"/v1/models%zz",
    "IIS escape (path-073)": b"/v1/%u006dodels",
    "half an escape in the query": b"/v1?a=%2",
    "quote": b'/v1/"models"',
    "brackets": b"/v1/[models]",
    "braces": b"/v1/{model}",
    "control byte in the query": b"/v1?a=\x01",
}

NOT_CANONICAL = {
    "encoded letter": b"/v1/%6dodels",
    "encoded fragment (path-009)": b"/v1/models%23",
    "encoded question mark (path-010)": b"/v1/models%3f",
    "encoded slash (path-024)": b"/v1%2fmodels",
    "encoded dots (path-021)": b"/v1/%2E%2E/metrics",
    "half-encoded dots (path-022)": b"/v1/.%2e/metrics",
    "encoded line end (path-039)": b"/v1/models%0d%0aX-Injected:%201",
    "encoded NUL (path-037)": b"/v1/models%00.json",
    "overlong slash (path-068)": b"/v1/m%C0%AFodels",
    "double encoding": b"/v1/%252e%252e/sleep",
    "leading double slash (path-011)": b"//v1/models",
    "inner double slash": b"/v1//models",
    "trailing double slash": b"/v1/models//",
    "dot (path-016)": b"/v1/./models",
    "dot at the end": b"/v1/.",
    "dot dot (path-017)": b"/v1/../metrics",
    "dot dot at the end": b"/v1/..",
    "traversal (path-018)": b"/v1/models/../../metrics",
    "matrix parameter (path-032)": b"/v1/models;x=1",
    "dot dot with parameter (path-033)": b"/..;/metrics",
    "dot dot before a query": b"/v1/..?a=b",
}


@pytest.mark.parametrize("raw,path,query", CANONICAL)
def test_a_canonical_target_is_split_at_its_first_question_mark(raw: bytes, path: bytes, query: bytes | None) -> None:
    assert Target.parse(raw) == Target(raw, path, query)


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_origin_form_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        Target.parse(raw)
    assert refused.value.reason is Reason.TARGET_MALFORMED


@pytest.mark.parametrize("raw", NOT_CANONICAL.values(), ids=NOT_CANONICAL.keys())
def test_a_path_with_another_spelling_is_not_canonical(raw: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        Target.parse(raw)
    assert refused.value.reason is Reason.TARGET_NOT_CANONICAL


def test_the_longest_target_is_read_and_one_byte_more_is_not() -> None:
    longest = b"/" + b"a" * (LONGEST_TARGET - 1)
    assert Target.parse(longest).path == longest
    with pytest.raises(Malformed) as refused:
        Target.parse(longest + b"a")
    assert refused.value.reason is Reason.TARGET_TOO_LONG


def test_a_target_that_is_not_canonical_is_told_later_and_any_other_fault_at_once() -> None:
    assert read_target(b"/v1/models?a") == Target(b"/v1/models?a", b"/v1/models", b"a")
    told = read_target(b"/v1//models")
    assert isinstance(told, Malformed)
    assert told.reason is Reason.TARGET_NOT_CANONICAL
    with pytest.raises(Malformed) as refused:
        read_target(b"http://evil.example/")
    assert refused.value.reason is Reason.TARGET_MALFORMED


def test_its_repr_does_not_show_a_query_where_a_token_may_stand() -> None:
    assert "secret" not in repr(Target.parse(b"/v1/models?access_token=secret"))


@given(
    st.lists(
        st.sampled_from([b"/", b"v1", b".", b"..", b"%2e", b"%", b";", b"?", b"#", b"\\", b" ", b"\x00"]), max_size=8
    )
)
def test_whatever_is_accepted_is_the_only_spelling_of_its_path(parts: list[bytes]) -> None:
    try:
        target = Target.parse(b"".join(parts))
    except Malformed:
        return
    segments = target.path.split(b"/")
    assert segments[0] == b""
    assert not {b".", b".."} & set(segments)
    assert b"" not in segments[1:-1]
    assert not set(target.path) & set(b"%;\\#? \x00")
    assert target.raw == target.path + (b"" if target.query is None else b"?" + target.query)
