"""``multipart/form-data`` as every parser reads it, or not at all (RFC 7578).

Enters: a Content-Type and the bytes of a body in pieces of any size. Leaves: for each part its ``PartHead``, the pieces
of its content, and ``None`` at its end. The ``multipart`` package finds the boundaries; what a part says of itself is
read here, by a grammar without alternatives: what two readers could read in two ways is refused. An epilogue is thrown
away. Nothing is kept, so a part may be of any size; what fields mean is not known here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multipart import MultipartError, MultipartSegment, ParserError, PushMultipartParser

from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_PARTS = 64
"""Parts of one form: more than any API here has fields."""

LONGEST_LINE = 4096
"""Bytes of one header line of a part; file names are long, nothing else is."""

# RFC 2046 §5.1.1  boundary := 0*69<bchars> bcharsnospace ; without a space, and no other parameter beside it
_BOUNDARY = rb"[0-9A-Za-z'()+_,./:=?-]{1,70}"
_CONTENT_TYPE = re.compile(
    rb"multipart/form-data[ \t]*;[ \t]*boundary=(?:\"(" + _BOUNDARY + rb")\"|([0-9A-Za-z'+_.-]{1,70}))", re.IGNORECASE
)
# RFC 7578 §4.2    name and filename alone, in this order; HTML writes '"' as %22, so no name holds an escape, and
# "filename*" must not be there. The file name is not read: it may hold anything that cannot end the line or the text.
_TOKEN = r"[!#$&'+.^_`|~0-9A-Za-z\[\]-]{1,128}"  # noqa: S105  (a token of HTTP's grammar)
_DISPOSITION = re.compile(
    rf'form-data[ \t]*;[ \t]*name=(?:"([^"\\\x00-\x1f\x7f]{{1,128}})"|({_TOKEN}))'
    rf'([ \t]*;[ \t]*filename=(?:"[^"\x00-\x1f\x7f]*"|{_TOKEN}))?',
    re.IGNORECASE,
)
_MEDIA_TYPE = re.compile(r"([a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,64})((?:[ \t]*;[\t -~]*)?)", re.IGNORECASE)
_UTF8 = re.compile(r'(?:[ \t]*;[ \t]*charset="?(?:utf-8|us-ascii)"?)?[ \t]*', re.IGNORECASE)
# RFC 7578 §4.7    deprecated, and harmless where it says that nothing was encoded; Content-Length the package checks
_HEADERS = frozenset({"Content-Disposition", "Content-Type", "Content-Length", "Content-Transfer-Encoding"})
_NOT_ENCODED = frozenset({"7bit", "8bit", "binary"})


# RFC 9112 §5      field-line = field-name ":" OWS field-value OWS ; no folding
_LINE = re.compile(rb"[A-Za-z-]{1,32}:[\t -~\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class PartHead:
    """What a part says of itself.

    ``is_file``: it has a file name. ``media_type``: in lower case, without parameters; ``None`` for none. ``plain``: it
    is text in UTF-8, as far as it says.
    """

    name: str
    is_file: bool
    media_type: str | None
    plain: bool


def boundary_of(content_type: bytes | None) -> bytes:
    """Give the boundary of a form. Raises ``Malformed(MEDIA_TYPE_NOT_ACCEPTED)`` for any other Content-Type."""
    match = _CONTENT_TYPE.fullmatch(content_type or b"")
    if match is None:
        raise Malformed(Reason.MEDIA_TYPE_NOT_ACCEPTED, "this endpoint takes multipart/form-data with a boundary")
    return match[1] or match[2]


class _Parser(PushMultipartParser):  # type: ignore[misc]  # the package has no types
    """The package's parser, which forgives a line feed or white space around a name if it comes in the same piece."""

    def _on_segment_headerline(self, line: bytes) -> None:
        if _LINE.fullmatch(line) is None:
            raise ParserError("not a header line")
        super()._on_segment_headerline(line)


class FormReader:
    """Reads one form."""

    def __init__(self, boundary: bytes) -> None:
        self._parser = _Parser(
            boundary, max_header_size=LONGEST_LINE, max_header_count=len(_HEADERS), max_segment_count=MOST_PARTS
        )
        self._opening = b"--" + boundary
        self._begun = b""

    def feed(self, data: bytes) -> Iterator[PartHead | bytes | None]:
        """Give what stands in the next piece of the body. Raises ``Malformed(BODY_MALFORMED)``."""
        if self._opening:
            # A preamble is noise to some readers and a part to others: the first byte begins the first boundary.
            self._begun += data
            if self._begun[: len(self._opening)] != self._opening[: len(self._begun)]:
                raise _malformed("the form does not begin with its boundary")
            if len(self._begun) < len(self._opening):
                return
            data, self._begun, self._opening = self._begun, b"", b""
        if not data:
            return
        try:
            for event in self._parser.parse(data):
                yield _head(event) if isinstance(event, MultipartSegment) else event
        except MultipartError:
            raise _malformed("the form is not well-formed multipart") from None

    def finish(self) -> None:
        """Make sure that the last boundary came. Raises ``Malformed(BODY_MALFORMED)``."""
        try:
            self._parser.close()
        except MultipartError:
            raise _malformed("the form ends before its last boundary") from None


def _head(segment: MultipartSegment) -> PartHead:
    """Read the header lines of a part."""
    lines = dict(segment.headerlist)
    if len(lines) != len(segment.headerlist) or not lines.keys() <= _HEADERS:
        raise _malformed("a part has a header line twice, or one that forms do not have")
    disposition = _DISPOSITION.fullmatch(lines["Content-Disposition"].rstrip(" \t"))
    if disposition is None:
        raise _malformed("a part's Content-Disposition is not name and filename alone")
    if lines.get("Content-Transfer-Encoding", "binary").strip(" \t").lower() not in _NOT_ENCODED:
        raise _malformed("a part has a transfer encoding")
    media_type, plain = None, True
    if "Content-Type" in lines:
        match = _MEDIA_TYPE.fullmatch(lines["Content-Type"].rstrip(" \t"))
        if match is None:
            raise _malformed("a part's Content-Type is not a media type")
        media_type = match[1].lower()
        plain = media_type == "text/plain" and _UTF8.fullmatch(match[2]) is not None
    return PartHead(disposition[1] or disposition[2], disposition[3] is not None, media_type, plain)


def _malformed(detail: str) -> Malformed:
    return Malformed(Reason.BODY_MALFORMED, detail)
