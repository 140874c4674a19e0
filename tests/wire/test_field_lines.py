"""Field lines are kept as they were sent, and a plain head is told by its names alone."""

from __future__ import annotations

import pytest

from gateway.wire.field_lines import (
    LONGEST_PLAIN,
    MOST_PLAIN,
    NO_FIELDS,
    FieldLines,
    Positions,
    plain_names,
    plain_positions,
)

HOST = b"Host"


def test_a_field_is_a_name_in_lower_case_and_a_value_without_white_space_behind_it() -> None:
    lines = FieldLines.of([(b"Host", b"x"), (b"X-A", b"\ta b \t "), (b"x-a", b"")])
    assert lines.pairs() == [(b"host", b"x"), (b"x-a", b"\ta b"), (b"x-a", b"")]
    assert NO_FIELDS.pairs() == []
    assert [lines.has(name) for name in (b"host", b"x-a", b"x", b"Host")] == [True, True, False, False]


def test_a_plain_head_is_known_by_its_names_however_they_are_spelled() -> None:
    names = (b"accept", b"HOST", b"Authorization", b"content-Length", b"x-stainless-os")
    assert plain_positions(names) == Positions(1, 2, None, 3)
    assert plain_positions((b"host", b"Content-Type")) == Positions(0, None, 1, None)


def test_names_that_come_again_are_those_that_came_first() -> None:
    first, plain = plain_names((b"X-First", HOST))
    again = plain_names((bytes(bytearray(b"X-First")), HOST))
    assert plain == plain_positions(first) == Positions(1, None, None, None)
    assert again[0] is first


def test_more_names_than_a_plain_head_has_are_not_kept() -> None:
    names = tuple(b"x-%d" % number for number in range(MOST_PLAIN))
    plain_names((HOST, *names))
    again = (HOST, *names)
    found, plain = plain_names(again)
    assert found is again
    assert plain is None


@pytest.mark.parametrize(
    "name",
    [
        b"connection", b"Proxy-Connection", b"upgrade", b"HTTP2-Settings", b"transfer-encoding", b"expect", b"origin",
        b"content-encoding", b"x-api-key", b"cf-access-jwt-assertion", b"DPoP", b"x-request-id", b"cf-ray",
        b"cf-connecting-ip", b"host", b"", b"x y", b"x:", b"x\xe9", b"x\n", b"x" * LONGEST_PLAIN,
    ],
)  # fmt: skip
def test_a_name_that_asks_for_a_longer_look_makes_no_plain_head(name: bytes) -> None:
    assert plain_positions((HOST, b"accept", name)) is None


def test_a_name_that_comes_twice_and_a_missing_host_make_no_plain_head() -> None:
    assert plain_positions((HOST, b"accept", b"Accept")) is None
    assert plain_positions((b"accept",)) is None


def test_a_head_of_many_fields_is_not_plain() -> None:
    names = tuple(b"x-%d" % number for number in range(MOST_PLAIN - 1))
    assert plain_positions((HOST, *names)) == Positions(0, None, None, None)
    assert plain_positions((HOST, *names, b"y")) is None


def test_its_repr_shows_no_value() -> None:
    assert repr(FieldLines.of([(b"authorization", b"Bearer secret")])) == "FieldLines(1)"
