from __future__ import annotations

import pytest

from gateway.reasons import Malformed, Reason
from gateway.wire.form_data import LONGEST_LINE, MOST_PARTS, FormReader, PartHead, boundary_of

FIELD = b'Content-Disposition: form-data; name="a"'
FILE = b'Content-Disposition: form-data; name="file"; filename="x.wav"'


@pytest.mark.parametrize(
    "content_type, boundary",
    [
        (b"multipart/form-data; boundary=b", b"b"),
        (b"Multipart/Form-Data ; BOUNDARY=----WebKitFormBoundaryA1", b"----WebKitFormBoundaryA1"),
        (b'multipart/form-data; boundary="a(b):c"', b"a(b):c"),
        (b"multipart/form-data; boundary=" + b"x" * 70, b"x" * 70),
    ],
)
def test_a_form_names_its_boundary(content_type: bytes, boundary: bytes) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"",
        b"application/json",
        b"multipart/form-data",
        b"multipart/form-data; boundary=",
        b'multipart/form-data; boundary=""',
        b"multipart/form-data; boundary=a b",
        b"multipart/form-data; boundary=a; boundary=b",
        b"multipart/form-data; charset=utf-8; boundary=a",
        b"multipart/form-data; boundary=" + b"x" * 71,
        b'multipart/form-data; boundary="a\\"b"',
        b"multipart/form-data; boundary=a:b",
        b"multipart/mixed; boundary=b",
        b"multipart/related; boundary=b",
        b'multipart/form-data; !="' + b"\\" * 60,
    ],
)
def test_any_other_media_type_is_not_accepted(content_type: bytes | None) -> None:
    with pytest.raises(Malformed) as caught:
        boundary_of(content_type)
    assert caught.value.reason is Reason.MEDIA_TYPE_NOT_ACCEPTED


def read(body: bytes, step: int = 0, boundary: bytes = b"b") -> list[tuple[PartHead, bytes]]:
    """Read a form in steps of so many bytes, 0 for all at once; give each part that ended."""
    reader = FormReader(boundary)
    parts: list[tuple[PartHead, bytes]] = []
    head, content = None, b""
    for at in range(0, len(body), step or len(body)):
        for event in reader.feed(body[at : at + (step or len(body))]):
            if isinstance(event, PartHead):
                head, content = event, b""
            elif event is None:
                assert head is not None
                parts.append((head, content))
            else:
                content += event
    reader.finish()
    return parts


def part(*lines: bytes, content: bytes = b"x") -> bytes:
    return b"--b\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + content + b"\r\n"


def one(*lines: bytes) -> PartHead:
    ((head, content),) = read(part(*lines) + b"--b--")
    assert content == b"x"
    return head


@pytest.mark.parametrize("step", [0, 1, 2, 3, 5, 64])
@pytest.mark.parametrize("end", [b"--b--", b"--b--\r\n", b"--b--\r\nand an epilogue\r\n--b\r\n"])
def test_a_form_is_read_the_same_in_pieces_of_any_size(step: int, end: bytes) -> None:
    body = part(FIELD, content=b"\r\n--") + part(FILE, b"Content-Type: audio/wav", content=b"\r\n--c\r\n") + end
    assert read(body, step) == [
        (PartHead("a", is_file=False, media_type=None, plain=True), b"\r\n--"),
        (PartHead("file", is_file=True, media_type="audio/wav", plain=False), b"\r\n--c\r\n"),
    ]


@pytest.mark.parametrize(
    "disposition, name, is_file",
    [
        (b'form-data; name="a"', "a", False),
        (b"form-data; name=a", "a", False),
        (b'Form-Data;name="timestamp_granularities[]" ', "timestamp_granularities[]", False),
        (b'form-data; name="a"; filename="b"', "a", True),
        (b"form-data; name=a; filename=b.wav", "a", True),
        (b'form-data; name="a"; filename=""', "a", True),
        (b'form-data; name="a"; filename="C:\\x\\y.wav"', "a", True),
        (b'form-data; name="a"; filename="%22; name=%22b"', "a", True),
        ('form-data; name="a"; filename="naïve.wav"'.encode(), "a", True),
        (b'form-data; name="%22"', "%22", False),
    ],
)
def test_a_part_is_named_in_one_way(disposition: bytes, name: str, is_file: bool) -> None:  # noqa: FBT001  (a row of the table)
    head = one(b"content-disposition: " + disposition)
    assert (head.name, head.is_file) == (name, is_file)


@pytest.mark.parametrize(
    "line, media_type, plain",
    [
        (b"Content-Type: text/plain", "text/plain", True),
        (b'Content-Type: Text/Plain; charset="UTF-8"', "text/plain", True),
        (b"Content-Type: text/plain; charset=utf-16", "text/plain", False),
        (b"Content-Type: audio/webm;codecs=opus", "audio/webm", False),
        (b"Content-Type: multipart/mixed; boundary=c", "multipart/mixed", False),
        (b"Content-Length: 1", None, True),
        (b"Content-Transfer-Encoding: Binary", None, True),
    ],
)
def test_a_part_says_what_it_holds(line: bytes, media_type: str | None, plain: bool) -> None:  # noqa: FBT001  (a row of the table)
    head = one(FIELD, line)
    assert (head.media_type, head.plain) == (media_type, plain)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    "body",
    [
        b"--c\r\n" + FIELD + b"\r\n\r\nx\r\n--c--",
        b"preamble\r\n" + part(FIELD) + b"--b--",
        b"\r\n" + part(FIELD) + b"--b--",
        b"--bb\r\n" + FIELD + b"\r\n\r\nx\r\n--b--",
        b"--b\n" + FIELD + b"\n\nx\n--b--",
        part(FIELD),
        part(FIELD) + b"--b",
        part(FIELD)[:-3],
        b"--b",
        b"--b\r\n\r\nx\r\n--b--",
        part(FIELD, FIELD) + b"--b--",
        part(FIELD, b"Content-Type: text/plain", b"Content-Type: audio/wav") + b"--b--",
        part(FIELD, b"X-Other: 1") + b"--b--",
        part(b"\n" + FIELD) + b"--b--",
        part(b" " + FIELD) + b"--b--",
        part(FIELD.replace(b":", b" :")) + b"--b--",
        part(b"Content-Disposition: form-data;", b' name="a"') + b"--b--",
        part(FIELD, b"no line") + b"--b--",
        part(FIELD, b"Content-Transfer-Encoding: base64") + b"--b--",
        part(FIELD, b"Content-Length: 2") + b"--b--",
        part(FIELD, b"Content-Type: audio") + b"--b--",
        part(FIELD, b"Content-Type: audio/wav\nX: 1") + b"--b--",
        part(b"Content-Disposition: attachment; name=a") + b"--b--",
        part(b"Content-Disposition: form-data") + b"--b--",
        part(b'Content-Disposition: form-data; name=""') + b"--b--",
        part(b'Content-Disposition: form-data; name="a\\"; x"') + b"--b--",
        part(b'Content-Disposition: form-data; name="a"; name="b"') + b"--b--",
        part(b'Content-Disposition: form-data; filename="b"; name="a"') + b"--b--",
        part(b"Content-Disposition: form-data; name=\"a\"; filename*=utf-8''b") + b"--b--",
        part(b'Content-Disposition: form-data; name="a"; filename="b"; filename*=utf-8\'\'c') + b"--b--",
        part(b'Content-Disposition: form-data; name="a"; filename="b\nc"') + b"--b--",
        part(b'Content-Disposition: form-data; name="a\0"') + b"--b--",
        part(b'Content-Disposition: form-data; name="' + b"a" * 129 + b'"') + b"--b--",
        part(b'Content-Disposition: form-data; name="a"; filename="' + b"x" * LONGEST_LINE + b'"') + b"--b--",
        part(FIELD + b" " * LONGEST_LINE) + b"--b--",
        part(b"Content-Disposition: form-data; name=\xff") + b"--b--",
        part(FIELD) * (MOST_PARTS + 1) + b"--b--",
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_refused(body: bytes, step: int) -> None:
    with pytest.raises(Malformed) as caught:
        read(body, step)
    assert caught.value.reason is Reason.BODY_MALFORMED
    assert caught.value.detail


def test_a_form_without_parts_is_one() -> None:
    assert read(b"--b--\r\n", 1) == []


def test_nothing_is_no_form() -> None:
    reader = FormReader(b"b")
    assert list(reader.feed(b"")) == []
    with pytest.raises(Malformed):
        reader.finish()


def test_an_empty_piece_changes_nothing() -> None:
    reader = FormReader(b"b")
    assert len(list(reader.feed(part(FIELD)))) > 0
    assert list(reader.feed(b"")) == []
    list(reader.feed(b"--b--"))
    reader.finish()
