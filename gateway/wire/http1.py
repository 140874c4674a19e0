"""The engine's answer as bytes: an HTTP/1.1 response reader without I/O (RFC 9112 §4-§7).

Enters: what the engine's connection delivered, in any pieces. Leaves: status, header fields, body bytes, and whether
the message is complete and the connection fit for another request. llhttp does the grammar; this reader adds what it
leaves open: a bounded head, interim answers, the framings that a gateway must not guess at. A reader reads the answers
of one connection, one at a time, and another only behind one that ended where the next begins.
"""

from __future__ import annotations

import httptools

from gateway.reasons import Malformed, Reason

HEAD_AT_MOST = 64 * 1024
"""Bytes of an answer's head, interim answers included."""

INTERIM_AT_MOST = 8
"""Interim (1xx) answers before the final one (RFC 9110 §15.2)."""

_USUAL = b"HTTP/1.1 200 "
"""How nearly every answer begins: version and status are known then, and need not be asked of the parser."""

_OK = 200  # and behind the class of interim answers
_WITHOUT_BODY = frozenset({204, 304})


class ResponseReader:
    """Reads the responses of one connection, one at a time; ``begin`` before each.

    ``status`` is 0 until the head is complete. ``headers``: its fields by their names in lower case, of several with
    one name the first; values may end in white space. ``parts`` holds body bytes not yet taken. ``complete``: the
    message has ended. ``excess``: bytes followed the message, so the connection is out of step. ``reusable``: another
    response may follow on the connection; never once anything was out of order.
    """

    __slots__ = (
        "_head_bytes", "_interim", "_interim_count", "_parser", "_usual", "chunked", "complete", "content_length",
        "excess", "headers", "on_body", "parts", "reusable", "status",
    )  # fmt: skip

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.parts: list[bytes] = []
        self.on_body = self.parts.append  # looked up once by the parser: no Python frame per piece
        self.complete = False
        self.excess = False
        self.reusable = True
        self.chunked = False
        self.content_length: int | None = None
        self._head_bytes = 0
        self._interim = False
        self._interim_count = 0
        self._usual = False
        self._parser = httptools.HttpResponseParser(self)

    def begin(self) -> None:
        """Be ready for another response: nothing of the last one stays. Raises ``ValueError`` unless ``reusable``."""
        if not self.reusable:
            message = "the parser does not stand between two responses"
            raise ValueError(message)
        self.status = self._head_bytes = 0
        self.headers = {}
        if self.parts:
            self.parts.clear()
        self.complete = self.chunked = False
        self.content_length = None

    def feed(self, data: bytes) -> None:
        """Take bytes of the connection. Raises ``Malformed(ENGINE_MALFORMED)``; nothing may be fed after that."""
        if self.status == 0:
            if self._head_bytes == 0:
                self._usual = data.startswith(_USUAL)
            self._head_bytes += len(data)
            self.reusable = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                cause = error.__context__  # set where one of our own callbacks refused
                detail = cause.detail if isinstance(cause, Malformed) else "body" if self.status else "head"
                raise Malformed(Reason.ENGINE_MALFORMED, detail) from None
            self.excess, self.reusable = True, False
        if self.status == 0 and self._head_bytes > HEAD_AT_MOST:
            raise Malformed(Reason.ENGINE_MALFORMED, "head too long")

    def close(self) -> None:
        """Let go of the parser, which holds this reader as this reader holds it; nothing may be fed after that."""
        del self._parser

    @property
    def untouched(self) -> bool:
        """Whether no byte of the answer has come: only then may the request be sent once more."""
        return self._head_bytes == 0

    def eof(self) -> bool:
        """Take the end of the connection; tell whether the message ended well (RFC 9112 §6.3 rule 8, §8)."""
        if self.status and not self.complete and not self.chunked and self.content_length is None:
            self.complete = True
        return self.complete

    def take(self) -> bytes:
        """Give the body bytes that have arrived since the last call."""
        parts = self.parts
        if len(parts) == 1:
            data = parts[0]
        elif parts:
            data = b"".join(parts)
        else:
            return b""
        parts.clear()
        return data

    def on_message_begin(self) -> None:
        """Refuse a second answer."""
        if self.complete:
            # Stops the parser: the body of an answer that nobody asked for must not join this one's.
            raise Malformed(Reason.ENGINE_MALFORMED, "second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head."""
        if self.status:
            return  # a trailer: not merged (RFC 9110 §6.5.1)
        name = name.lower()
        if name not in self.headers:
            self.headers[name] = value
        elif name == b"transfer-encoding":
            self.headers[name] += b"," + value  # they mean one list (RFC 9110 §5.3)

    def on_headers_complete(self) -> None:
        """Take status and framing; interim answers are skipped."""
        status, version = _OK, "1.1"
        if self._usual:
            self._usual = False
        else:
            status, version = self._status_line()
            if status < _OK:
                self._skip(status)
                return
            self._interim_count = 0
        headers = self.headers
        if b"transfer-encoding" in headers:
            if headers[b"transfer-encoding"].strip().lower() != b"chunked" or version == "1.0":
                raise Malformed(Reason.ENGINE_MALFORMED, "transfer coding")
            self.chunked = True
        length = headers.get(b"content-length")
        if length is not None:
            self.content_length = int(length)  # llhttp has checked that it is one number
        if status in _WITHOUT_BODY:
            self.content_length, self.chunked = 0, False
        self.status = status

    def _status_line(self) -> tuple[int, str]:
        """Give status and version. Raises ``Malformed`` for what is none that a gateway understands."""
        version: str = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Malformed(Reason.ENGINE_MALFORMED, "version")
        status: int = self._parser.get_status_code()
        if not 100 <= status < 600:  # noqa: PLR2004  (RFC 9110 §15: five classes)
            raise Malformed(Reason.ENGINE_MALFORMED, "status")
        return status, version

    def _skip(self, status: int) -> None:
        """Forget an interim answer."""
        self._interim_count += 1
        if status == 101 or self._interim_count > INTERIM_AT_MOST:  # noqa: PLR2004  (no Upgrade was asked for)
            raise Malformed(Reason.ENGINE_MALFORMED, "interim answer")
        self._interim = True
        self.headers.clear()

    def on_message_complete(self) -> None:
        """Note the end, and whether the connection may be used again."""
        if self._interim:
            self._interim = False
            return
        self.complete = True
        self.reusable = self._parser.should_keep_alive()  # asked here, since the parser moves on behind this
