from __future__ import annotations

import pytest

from gateway.wire.response_head import is_event_stream, passing_lines, retry_after


def test_only_what_describes_the_body_passes() -> None:
    fields = {
        b"content-type": b"text/event-stream; charset=utf-8",
        b"content-encoding": b"gzip",
        b"retry-after": b"30",
        b"server": b"uvicorn",
        b"date": b"Mon, 30 Nov 2026 02:06:00 GMT",
        b"set-cookie": b"a=b",
        b"connection": b"keep-alive",
        b"content-length": b"5",
        b"transfer-encoding": b"chunked",
        b"access-control-allow-origin": b"*",
        b"location": b"/v1",
        b"x-request-id": b"1",
        b"www-authenticate": b"Bearer",
    }
    passing = (
        b"content-type: text/event-stream; charset=utf-8\r\n",
        b"content-encoding: gzip\r\n",
        b"retry-after: 30\r\n",
    )
    assert passing_lines(fields) == passing
    del fields[b"content-encoding"], fields[b"retry-after"]
    assert passing_lines(fields) == passing[:1]


@pytest.mark.parametrize(
    "name,value",
    [
        (b"content-type", b"application/json"),
        (b"content-type", b'audio/wav; codecs="1"'),
        (b"retry-after", b"Mon, 30 Nov 2026 02:06:00 GMT"),
        (b"content-encoding", b"br"),
    ],
)
@pytest.mark.parametrize("space", [b"", b" ", b" \t "])
def test_a_sound_value_passes_verbatim_without_the_space_behind_it(name: bytes, value: bytes, space: bytes) -> None:
    assert passing_lines({name: value + space}) == (name + b": " + value + b"\r\n",)


@pytest.mark.parametrize(
    "name,value",
    [
        (b"content-type", b"application/json\r\nset-cookie: a=b"),
        (b"content-type", b"text/html\x00"),
        (b"content-type", b"text/plain; " + b"a" * 200),
        (b"content-type", b"text/plain; " + b"a" * 2000),
        (b"content-type", b"json"),
        (b"content-type", b""),
        (b"content-encoding", b"gzip, br"),
        (b"retry-after", b"soon"),
        (b"retry-after", b"-1"),
        (b"retry-after", b"1\n"),
    ],
)
def test_an_unsound_value_does_not(name: bytes, value: bytes) -> None:
    assert passing_lines({name: value}) == ()
    assert passing_lines({b"content-type": b"a/b", b"retry-after": b"1", name: value}) == tuple(
        line for line in (b"content-type: a/b\r\n", b"retry-after: 1\r\n") if not line.startswith(name)
    )


@pytest.mark.parametrize("value,told", [(b"7", "7"), (b"7 ", "7"), (b"soon", ""), (b"", ""), (b"\xff", "")])
def test_an_engine_says_when_to_try_again_or_does_not(value: bytes, told: str) -> None:
    assert retry_after({b"retry-after": value}) == told
    assert retry_after({}) == ""


@pytest.mark.parametrize(
    "fields,events",
    [
        ({b"content-type": b"text/event-stream"}, True),
        ({b"content-type": b"Text/Event-Stream ; charset=utf-8", b"retry-after": b"1"}, True),
        ({b"content-type": b"text/event-stream "}, True),
        ({b"content-type": b"text/event-stream", b"content-encoding": b"br"}, False),
        ({b"content-type": b"text/event-stream; \xff"}, False),
        ({b"content-type": b"text/plain"}, False),
        ({}, False),
    ],
)
def test_only_events_in_the_clear_can_be_told_apart(fields: dict[bytes, bytes], events: bool) -> None:  # noqa: FBT001
    assert is_event_stream(fields) is events
