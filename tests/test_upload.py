"""A form is read while it comes, whichever way it is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.dialects.openai_audio import OpenAITranscriptions
from gateway.reasons import Malformed, Reason
from gateway.upload import check_announced, receive, written
from gateway.wire.field_lines import NO_FIELDS
from gateway.wire.headers import RequestHeaders

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

DIALECT = OpenAITranscriptions()
BODY = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\nContent-Type: audio/wav\r\n\r\n\r\n--a \r\n'
    b'\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--b--\r\n'
)


class Door:
    """The body of one request in pieces."""

    method, target, http_version = "POST", b"/", "1.1"
    peer: str | None = None
    certificate: str | None = None
    refusal: Malformed | None = None
    keep_alive = True
    lines: tuple[bytes, ...] = ()
    bytes_in = bytes_out = 0
    answered = False

    def __init__(self, body: bytes, size: int) -> None:
        self.headers = NO_FIELDS
        self._body = body
        self._size = size

    def body_at_hand(self, at_most: int) -> bytes | None:
        raise AssertionError("a form is not read at once")

    async def read_body(self, at_most: int) -> bytes:
        raise AssertionError("a form is not read at once")

    async def pieces(self, at_most: int) -> AsyncGenerator[bytes, None]:
        assert at_most == 1000
        for at in range(0, len(self._body), self._size):
            yield self._body[at : at + self._size]

    def answer(self, status: int, lines: Iterable[bytes], body: bytes) -> None:
        raise AssertionError("reading answers nothing")


class Kept:
    """A spool in memory."""

    def __init__(self) -> None:
        self.size = 0
        self.content: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.content.append(data)
        self.size += len(data)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        for piece in self.content:
            yield piece

    def close(self) -> None:
        self.content.clear()


def head(
    content_type: bytes = b"multipart/form-data; boundary=b",
    *,
    content_length: int | None = None,
    content_encoding: bytes | None = None,
) -> RequestHeaders:
    return RequestHeaders(
        "gateway", content_type=content_type, content_length=content_length, content_encoding=content_encoding
    )


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_a_form_is_the_same_however_it_is_cut(size: int) -> None:
    spool = Kept()
    call = await receive(Door(BODY, size), head(), 1000, DIALECT, spool)
    assert call.fields == {"file": "audio/wav", "model": "whisper"}
    assert b"".join(spool.content) == b"\r\n--a \r\n"


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_form_that_breaks_off_is_no_form(size: int) -> None:
    with pytest.raises(Malformed) as caught:
        await receive(Door(BODY[:-6], size), head(), 1000, DIALECT, Kept())
    assert caught.value.reason is Reason.BODY_MALFORMED


@pytest.mark.parametrize(
    "headers, reason",
    [
        (head(content_length=1001), Reason.BODY_TOO_LARGE),
        (head(content_encoding=b"gzip"), Reason.MEDIA_TYPE_NOT_ACCEPTED),
        (head(b"application/json"), Reason.MEDIA_TYPE_NOT_ACCEPTED),
    ],
)
async def test_what_the_head_announces_is_refused_before_a_byte_is_read(
    headers: RequestHeaders, reason: Reason
) -> None:
    with pytest.raises(Malformed) as caught:
        await receive(Door(b"", 1), headers, 1000, DIALECT, Kept())
    assert caught.value.reason is reason


async def test_an_empty_file_is_none() -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n\r\n--b--'
    with pytest.raises(Malformed) as caught:
        await receive(Door(body, 1000), head(), 1000, DIALECT, Kept())
    assert (caught.value.reason, caught.value.param) == (Reason.PARAMETER_INVALID, "file")


async def test_what_was_judged_is_what_is_written() -> None:
    spool = Kept()
    call = await receive(Door(BODY, 1000), head(), 1000, DIALECT, spool)
    first, upload = written(DIALECT, call, [], spool, "ours")
    assert first.startswith(b'--ours\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--ours\r\n')
    assert (upload.boundary, upload.file, upload.tail) == ("ours", spool, b"\r\n--ours--\r\n")


def test_a_body_of_just_the_largest_size_is_announced_well() -> None:
    check_announced(head(content_length=1000), 1000)
