from __future__ import annotations

import pytest

from gateway.wire.response_head import is_event_stream, passing_fields


def test_only_what_describes_the_body_passes() -> None:
    fields = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"content-encoding", b"gzip"),
        (b"retry-after", b"30"),
        (b"server", b"uvicorn"),
        (b"date", b"Mon, 30 Nov 2026 02:06:00 GMT"),
        (b"set-cookie", b"a=b"),
        (b"connection", b"keep-alive"),
        (b"content-length", b"5"),
        (b"transfer-encoding", b"chunked"),
        (b"access-control-allow-origin", b"*"),
        (b"location", b"/v1"),
        (b"x-request-id", b"1"),
        (b"www-authenticate", b"Bearer"),
    ]
    assert passing_fields(fields) == [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"content-encoding", b"gzip"),
        (b"retry-after", b"30"),
    ]


@pytest.mark.parametrize(
    "name,value",
    [
        (b"content-type", b"application/json"),
        (b"content-type", b'audio/wav; codecs="1"'),
        (b"retry-after", b"Mon, 30 Nov 2026 02:06:00 GMT"),
        (b"content-encoding", b"br"),
    ],
)
def test_a_sound_value_passes_verbatim(name: bytes, value: bytes) -> None:
    assert passing_fields([(name, value)]) == [(name, value)]


@pytest.mark.parametrize(
    "name,value",
    [
        (b"content-type", b"application/json\r\nset-cookie: a=b"),
        (b"content-type", b"text/html\x00"),
        (b"content-type", b"text/plain; " + b"a" * 200),
        (b"content-type", b"json"),
        (b"content-type", b""),
        (b"content-encoding", b"gzip, br"),
        (b"retry-after", b"soon"),
        (b"retry-after", b"-1"),
        (b"retry-after", b"1\n"),
    ],
)
def test_an_unsound_value_does_not(name: bytes, value: bytes) -> None:
    assert passing_fields([(name, value)]) == []


def test_the_first_sound_one_of_two_passes() -> None:
    fields = [(b"content-type", b"broken"), (b"content-type", b"text/plain"), (b"content-type", b"text/html")]
    assert passing_fields(fields) == [(b"content-type", b"text/plain")]


@pytest.mark.parametrize(
    "fields,events",
    [
        ([(b"content-type", b"text/event-stream")], True),
        ([(b"content-type", b"Text/Event-Stream ; charset=utf-8"), (b"retry-after", b"1")], True),
        ([(b"content-type", b"text/event-stream"), (b"content-encoding", b"br")], False),
        ([(b"content-type", b"text/plain")], False),
        ([], False),
    ],
)
def test_only_events_in_the_clear_can_be_told_apart(fields: list[tuple[bytes, bytes]], events: bool) -> None:  # noqa: FBT001
    assert is_event_stream(fields) is events
