"""Fuzz targets for floor 0: readers of bytes that came from outside.

Enters: any bytes. Leaves: nothing, or an ``AssertionError`` that says which promise of a reader was broken. A first
octet, where a target takes one, chooses the sizes of the pieces or the version: the rest is what the peer sent.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import h11
import orjson

from gateway.reasons import Malformed, Reason
from gateway.wire import strict_json
from gateway.wire.event_stream import HELD_AT_MOST, KEEP_ALIVE, EventBuffer
from gateway.wire.field_lines import FieldLines
from gateway.wire.headers import LONGEST_FIELD, MOST_BYTES, MOST_FIELDS, RequestHeaders
from gateway.wire.hosts import HostRule
from gateway.wire.http1 import ResponseReader
from gateway.wire.target import LONGEST_TARGET, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY_HOST = HostRule(anything=True)
_VERSIONS = ("1.1", "1.1", "1.0", "2.0")


def pieces(control: int, data: bytes) -> Iterator[bytes]:
    """Cut bytes as a connection might: whole, one by one, or in pieces of a few sizes."""
    sizes = [(1,), (2, 1, 7), (3,), (16, 1), (61, 5), (1024,), (4096, 1)][control % 8 - 1] if control % 8 else ()
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)] if sizes else len(data)
        yield data[at : at + size]
        at += size
        turn += 1


def fuzz_target(data: bytes) -> None:
    """Check that a target that is accepted is the only spelling of itself, and nothing of it was changed."""
    try:
        target = Target.parse(data)
    except Malformed as malformed:
        assert malformed.reason in {Reason.TARGET_TOO_LONG, Reason.TARGET_MALFORMED, Reason.TARGET_NOT_CANONICAL}  # noqa: PT017
        return
    path, mark, query = data.partition(b"?")
    assert (target.raw, target.path, target.query) == (data, path, query if mark else None)
    assert len(data) <= LONGEST_TARGET
    assert re.fullmatch(rb"[!-~]+", data)
    assert not set(b'#\\^`{|}<>"') & set(data)
    assert unquote_to_bytes(path) == path
    assert posixpath.normpath(path) == (path.rstrip(b"/") or b"/")


def fuzz_headers(data: bytes) -> None:
    """Fields that are accepted are framed one way, name one host, and mean the same in any order."""
    version = _VERSIONS[data[0] % 4] if data else "1.1"
    lines = [line.partition(b":") for line in data[1:].split(b"\n")]
    raw = [(name.lower(), value.strip(b" \t")) for name, _, value in lines]
    try:
        headers = RequestHeaders.parse(raw, http_version=version, hosts=ANY_HOST)
    except Malformed as malformed:
        assert malformed.reason in {Reason.HEADERS_MALFORMED, Reason.HEADERS_TOO_LARGE, Reason.HOST_NOT_SERVED}  # noqa: PT017
        return

    def values(name: bytes) -> list[bytes]:
        return [value for found, value in raw if found == name]

    assert headers == RequestHeaders.parse(raw[::-1], http_version=version, hosts=ANY_HOST)
    assert headers == RequestHeaders.read(FieldLines.of(raw), http_version=version, hosts=ANY_HOST)
    assert version in {"1.0", "1.1"}
    assert len(raw) <= MOST_FIELDS
    assert sum(len(name) + len(value) for name, value in raw) <= MOST_BYTES
    assert max(len(name) + len(value) for name, value in raw) <= LONGEST_FIELD
    assert re.fullmatch(rb"[!-~]+", b"".join(name for name, _ in raw))
    assert not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", b"".join(value for _, value in raw))
    assert [value.lower().decode("ascii") for value in values(b"host")] == [headers.host]
    lengths, codings = values(b"content-length"), values(b"transfer-encoding")
    assert len(lengths) + len(codings) <= 1
    assert headers.chunked == bool(codings)
    assert [coding.lower() for coding in codings] in ([], [b"chunked"])
    assert not codings or version == "1.1"
    assert [int(length) for length in lengths] == ([] if headers.content_length is None else [headers.content_length])
    assert not values(b"upgrade")
    assert b"upgrade" not in b",".join(values(b"connection")).lower()
    for name, read in (
        (b"authorization", headers.authorization),
        (b"x-api-key", headers.x_api_key),
        (b"cf-access-jwt-assertion", headers.access_assertion),
    ):
        assert read is None if headers.credential_repeated else [read][: read is not None] == values(name)


def fuzz_strict_json(data: bytes) -> None:
    """Check that a body that is accepted is read the same by the standard library, as is what is written of it."""
    try:
        value = strict_json.loads(data)
    except Malformed as malformed:
        assert malformed.reason is Reason.BODY_MALFORMED  # noqa: PT017
        return
    reading = shape(json.loads(data.decode("utf-8", "strict"), object_pairs_hook=_unique, parse_constant=_refuse))
    assert shape(value) == reading
    written = strict_json.dumps(value)
    assert shape(strict_json.loads(written)) == reading
    assert shape(json.loads(written)) == reading
    assert shape(orjson.loads(written)) == reading
    assert strict_json.dumps(strict_json.loads(written)) == written


def shape(value: object) -> object:
    """Give a value in which ``1``, ``1.0``, ``true`` and ``-0.0`` differ, as they do in JSON."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return (type(value).__name__, repr(value))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), "a member name occurs twice"
    return found


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def fuzz_event_stream(data: bytes) -> None:
    """Every byte passes, in order; what is held back is bounded; a comment at a boundary changes no event."""
    control, body = (data[0], data[1:]) if data else (0, b"")
    times = 1
    if control >= 0xF0:  # now and then far more of the same, for what must stay constant; in pieces of 1 KiB and more
        times = max(1, 4 * HELD_AT_MOST // max(1, len(body)))
        control |= 6
    buffer = EventBuffer()
    sent = passed = 0
    last = b""
    out: list[bytes] = []
    commented: list[bytes] = []
    for piece in pieces(control, body * times):
        sent += len(piece)
        given = buffer.feed(piece)
        passed += len(given)
        out.append(given)
        last = (last + given)[-3:]
        commented.append(given)
        assert sent - passed <= HELD_AT_MOST
        assert buffer.at_boundary or passed
        if buffer.at_boundary and passed:  # where a comment of ours may follow
            assert last.endswith((b"\n\n", b"\n\r\n", b"\r\r"))
            commented.append(KEEP_ALIVE)
    rest = buffer.flush()
    assert b"".join(out) + rest == body * times
    if times == 1:
        assert events(b"".join(commented) + rest) == events(body)


def events(stream: bytes) -> list[list[bytes]]:
    """Read a stream as HTML §9.2.6 says: the lines of each event, without comments; an unfinished one is none."""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    found: list[list[bytes]] = []
    event: list[bytes] = []
    for line in lines[:-1]:
        if line.startswith(b":"):
            continue
        if line:
            event.append(line)
        elif event:
            found.append(event)
            event = []
    return found


def fuzz_response(data: bytes) -> None:
    """Check that an engine's answer is read the same in any pieces, and, where it is accepted, as h11 reads it."""
    control, answer = (data[0], data[1:]) if data else (0, b"")
    whole = _response(0, answer)
    assert _response(control, answer) == whole
    if whole is None or not whole[0]:
        return
    status, headers, body, complete, *_ = whole
    theirs = _response_by_h11(answer)
    if theirs is None:
        return  # h11 is stricter in grammar; what matters is that it reads nothing else
    assert theirs[0] == status
    if theirs[2] and complete:
        assert theirs[1] == body
    assert (b"content-length" in headers) + (b"transfer-encoding" in headers) <= 1


def _response(control: int, data: bytes) -> tuple[int, dict[bytes, bytes], bytes, bool, bool] | None:
    """Read one answer; ``None`` when it is malformed. What is not fed any more would close its connection."""
    reader = ResponseReader()
    body, fed = b"", 0
    try:
        for piece in pieces(control, data):
            reader.feed(piece)
            fed += len(piece)
            body += reader.take()
            if reader.complete:
                break
    except Malformed as malformed:
        assert malformed.reason is Reason.ENGINE_MALFORMED  # noqa: PT017
        return None
    complete = reader.complete or reader.eof()
    alone = not data[fed:].strip(b"\r\n")
    return reader.status, reader.headers, body, complete, reader.reusable and alone


def _response_by_h11(data: bytes) -> tuple[int, bytes, bool] | None:
    """Read one answer by h11: status, body, and whether it is complete; ``None`` when h11 refuses it."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    connection.receive_data(b"")
    status, body = 0, b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status, body, True
            elif not isinstance(event, h11.InformationalResponse):
                return status, body, False
    except h11.RemoteProtocolError:
        return None
