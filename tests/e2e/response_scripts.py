"""Streams of a response as a script for the engine that does as told, framed in every way that the standard permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulators.raw_engine import End, chunk, head

if TYPE_CHECKING:
    from tests.simulators.raw_engine import Step

_CREATED = (
    b'{"response":{"id":"resp_1","status":"in_progress","output":[],"usage":null},"sequence_number":0,'
    b'"type":"response.created"}'
)
_LONG = b"x" * 1_500_000
_DELTA = (
    b'{"content_index":0,"delta":" hi","item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":2,'
    b'"type":"response.output_text.delta"}'
)
_DONE = (
    b'{"response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":7,'
    b'"output_tokens_details":{"reasoning_tokens":2},"total_tokens":12},"user":null},"sequence_number":3,'
    b'"type":"response.completed"}'
)


def framed(style: str) -> tuple[bytes, ...]:
    """Write a response's events with their names, as ``data`` alone, with CRLF, or with comments and more lines."""
    line = b"\r\n" if style == "crlf" else b"\n"
    extra = b": still here" + line + line if style == "comments" else b""
    more = b"id: 1" + line + b"retry: 10" + line if style == "comments" else b""
    events = []
    for kind, data in (
        (b"response.created", _CREATED),
        (b"response.output_text.delta", _DELTA),
        (b"response.completed", _DONE),
    ):
        name = b"" if style == "data" else b"event: " + kind + line
        events.append(extra + name + more + b"data: " + data + line + line)
    return tuple(events)


def _pieces(event: bytes) -> tuple[bytes, ...]:
    return tuple(event[start : start + 20_000] for start in range(0, len(event), 20_000))


STYLES = ("named", "data", "crlf", "comments")
_STREAM = head("content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked")
SCRIPTS: dict[str, tuple[Step, ...]] = {
    **{style: (_STREAM, *map(chunk, framed(style)), b"0\r\n\r\n") for style in STYLES},
    "cut": (_STREAM, *map(chunk, framed("named")[:2]), End.CLOSE),
    "long": (
        _STREAM,
        chunk(framed("named")[0]),
        *(chunk(piece) for piece in _pieces(framed("named")[2].replace(b'"output":[]', b'"output":"%b"' % _LONG))),
        b"0\r\n\r\n",
    ),
}
