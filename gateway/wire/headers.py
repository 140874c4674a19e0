"""The header fields of a request: counted, checked once, and reduced to the few that a later room reads.

Enters: names in lower case with raw values, as the HTTP parser split them. Leaves: ``RequestHeaders``, whose
existence proves that the message is framed in one way only, names one host that is served here, and asks for no other
protocol. What is not an attribute of it does not exist for the gateway: forwarding headers, cookies and method
overrides are never looked at.
"""

from __future__ import annotations

import re
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from gateway.reasons import Malformed, Reason
from gateway.wire import field_lines

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from gateway.wire.field_lines import FieldLines
    from gateway.wire.hosts import HostRule

_NAME, _VALUE = itemgetter(0), itemgetter(1)

MOST_FIELDS = 100
MOST_BYTES = 32 * 1024
LONGEST_FIELD = 16 * 1024


def _only(octets: bytes) -> bytes:
    """Give the table that changes every text in which another octet stands: the fastest search for one."""
    return bytes(octet if octet in octets else (octet + 1) % 256 for octet in range(256))


# RFC 9110 §5.6.2  token = 1*tchar ; names arrive in lower case, which also refuses two spellings of one name further on
_NAMES = _only(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
# RFC 9110 §5.5    field-vchar = VCHAR / obs-text, with SP and HTAB between; no NUL, CR, LF (header splitting), no
# other CTL. obs-text passes: it stands in real User-Agents, and no value leaves the gateway.
_VALUES = _only(b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)))

# RFC 9110 §8.6    Content-Length = 1*DIGIT ; 18 digits keep every integer reader in range
_MOST_DIGITS = 18
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_CF_RAY = re.compile(rb"[0-9A-Fa-f]{1,32}(?:-[A-Z]{3})?")
_IP_ADDRESS = re.compile(rb"[0-9A-Fa-f:.]{2,45}")
# RFC 9110 §8.3.1  media-type = type "/" subtype parameters ; no "+json", no json-seq: each is another format
_JSON_TYPE = re.compile(rb'application/json(?:[ \t]*;[ \t]*charset=(?:utf-8|"utf-8"))?[ \t]*', re.IGNORECASE)

_NO_TABS = _only(bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)))
_BETWEEN = b"\xff"  # stands between two values that are looked at together; any value may have it as well
_SHORTEST_TOKEN = 100  # of an Authorization field with a signed token; keys are shorter
_LONGEST_PLAIN = LONGEST_FIELD - field_lines.LONGEST_PLAIN
_NOBODY: frozenset[bytes] = frozenset()


class RequestHeaders(NamedTuple):
    """The checked fields of one request; ``None`` where a field is absent.

    ``credential_repeated``: one of the four credential fields came twice; then all four are ``None`` and the
    gatehouse answers ``CREDENTIAL_AMBIGUOUS``. ``request_id``, ``cf_ray`` and ``cf_connecting_ip``: the caller's own
    words, checked for form, not for truth. ``expects_continue``: the client waits for a 100 before it sends the body.
    ``known_as``: the SHA-256 of ``authorization`` where that is among those that ``read`` was told, and nothing else in
    the head could be a credential or says more than the five attributes at the beginning of this list can.
    (A tuple, because it is built for every request and a frozen dataclass of this size costs four times as much.)
    """

    host: str
    authorization: bytes | None = None
    x_api_key: bytes | None = None
    access_assertion: bytes | None = None
    credential_repeated: bool = False
    content_type: bytes | None = None
    content_length: int | None = None
    content_encoding: bytes | None = None
    chunked: bool = False
    expects_continue: bool = False
    origin: bytes | None = None
    request_id: str | None = None
    cf_connecting_ip: str | None = None
    cf_ray: str | None = None
    dpop: bytes | None = None
    known_as: bytes | None = None

    def __repr__(self) -> str:
        """Name the host alone: the other fields hold credentials."""
        return f"RequestHeaders(host={self.host!r}, …)"

    @property
    def has_body(self) -> bool:
        """Whether a body follows."""
        return self.chunked or bool(self.content_length)

    @classmethod
    def read(
        cls, fields: FieldLines, *, http_version: str, hosts: HostRule, known: Container[bytes] = _NOBODY
    ) -> RequestHeaders:
        """Check all fields as ``parse`` does, with the same end, but at once what nearly every request has.

        ``known``: by their SHA-256, Authorization fields of which each octet was looked at before.
        """
        plain = fields.plain
        if plain is None or http_version != "1.1":
            return cls.parse(fields.pairs(), http_version=http_version, hosts=hosts)
        host_at, authorization_at, type_at, length_at = plain
        values = fields.values
        authorization = known_as = octets = None
        size = 0
        if authorization_at is not None:
            authorization = values[authorization_at]
            if len(authorization) >= _SHORTEST_TOKEN:
                digest = sha256(authorization).digest()
                if digest in known:
                    known_as, size = digest, len(authorization)
                    values[authorization_at] = b""  # each of its octets was looked at
                    octets = _BETWEEN.join(values)
                    values[authorization_at] = authorization
        if octets is None:
            octets = _BETWEEN.join(values)
        digits = None if length_at is None else values[length_at]
        if (
            len(octets) + size > _LONGEST_PLAIN
            or octets.find(b" \xff") >= 0  # `in` with bytes takes ten times as long
            or octets.endswith(b" ")
            or octets.translate(_NO_TABS) != octets
            or (digits is not None and (not digits.isdigit() or len(digits) > _MOST_DIGITS))
        ):
            return cls.parse(fields.pairs(), http_version=http_version, hosts=hosts)  # white space to cut, or a fault
        host = values[host_at]
        return tuple.__new__(cls, (
            hosts.names.get(host) or hosts.check(host), authorization, None, None, False,
            None if type_at is None else values[type_at], None if digits is None else int(digits), None,
            False, False, None, None, None, None, None, known_as,
        ))  # fmt: skip

    @classmethod
    def parse(cls, raw: Sequence[tuple[bytes, bytes]], *, http_version: str, hosts: HostRule) -> RequestHeaders:
        """Check all fields. Raises ``Malformed``: ``HEADERS_TOO_LARGE``, ``HEADERS_MALFORMED``, ``HOST_NOT_SERVED``."""
        fields = dict(raw)
        get = fields.get
        _measure(raw, fields)
        repeated = len(fields) != len(raw) and _credential_repeated(raw)
        connection = get(b"connection")
        if b"upgrade" in fields or b"http2-settings" in fields or (connection and _nominates_upgrade(connection)):
            raise _malformed("WebSocket, and with it the realtime API, and h2c are not offered here")
        length, chunked = _framing(get(b"content-length"), get(b"transfer-encoding"), http_version)
        expect = get(b"expect")
        if expect is not None and expect.lower() != b"100-continue":
            raise _malformed("the expect field names something other than 100-continue")
        values = (
            hosts.check(get(b"host")),
            None if repeated else get(b"authorization"),
            None if repeated else get(b"x-api-key"),
            None if repeated else get(b"cf-access-jwt-assertion"),
            repeated,
            get(b"content-type"),
            length,
            get(b"content-encoding"),
            chunked,
            expect is not None and http_version == "1.1",
            get(b"origin"),
            _form(_REQUEST_ID, value) if (value := get(b"x-request-id")) else None,
            _form(_IP_ADDRESS, value) if (value := get(b"cf-connecting-ip")) else None,
            _form(_CF_RAY, value) if (value := get(b"cf-ray")) else None,
            None if repeated else get(b"dpop"),
            None,
        )
        return tuple.__new__(cls, values)  # half the price of a call with names


def media_type_is_json(content_type: bytes | None) -> bool:
    """Tell whether a Content-Type is ``application/json``, alone or with ``charset=utf-8`` (RFC 8259 §8.1, §11)."""
    return content_type is not None and (
        content_type == b"application/json" or _JSON_TYPE.fullmatch(content_type) is not None
    )


def _measure(raw: Sequence[tuple[bytes, bytes]], fields: Mapping[bytes, bytes]) -> None:
    """Refuse too many fields, too many bytes, and any octet that the grammar does not know."""
    if len(raw) > MOST_FIELDS:
        raise Malformed(Reason.HEADERS_TOO_LARGE, f"more than {MOST_FIELDS} header fields")
    if len(fields) == len(raw):
        all_names, all_values = b"".join(fields), b"".join(fields.values())
    else:
        all_names, all_values = b"".join(map(_NAME, raw)), b"".join(map(_VALUE, raw))
    size = len(all_names) + len(all_values)
    if size > MOST_BYTES:
        raise Malformed(Reason.HEADERS_TOO_LARGE, f"header fields of more than {MOST_BYTES} bytes in all")
    if size > LONGEST_FIELD and any(len(name) + len(value) > LONGEST_FIELD for name, value in raw):
        raise Malformed(Reason.HEADERS_TOO_LARGE, f"a header field of more than {LONGEST_FIELD} bytes")
    if all_names.translate(_NAMES) != all_names:
        raise _malformed("a field name is not a token")
    if all_values.translate(_VALUES) != all_values:
        raise _malformed("a field value holds a control character")


def _credential_repeated(raw: Sequence[tuple[bytes, bytes]]) -> bool:
    """Tell whether a credential field comes twice; refuse other singletons that do, and a Connection that upgrades."""
    seen: set[bytes] = set()
    credential_repeated = False
    for name, value in raw:
        if name == b"connection" and _nominates_upgrade(value):
            raise _malformed("WebSocket, and with it the realtime API, and h2c are not offered here")
        if name in seen:
            if name in field_lines.SINGLE:
                raise _malformed(f"the {name.decode()} field occurs twice")
            credential_repeated |= name in field_lines.CREDENTIALS
        seen.add(name)
    return credential_repeated


def _nominates_upgrade(connection: bytes) -> bool:
    """Tell whether a Connection field asks for another protocol (RFC 9110 §7.6.1, §7.8).

    A body sent with Upgrade is lost in the parser, and h2c would leave every rule behind.
    """
    options = connection.lower()
    return b"upgrade" in options or b"http2-settings" in options


def _framing(length: bytes | None, coding: bytes | None, http_version: str) -> tuple[int | None, bool]:
    """Find the one way in which the body ends, as Content-Length or chunked (RFC 9112 §6.1-6.3, §11.2)."""
    if http_version not in {"1.0", "1.1"}:
        raise _malformed("the HTTP version is not 1.1")
    if coding is not None:
        if length is not None:
            raise _malformed("content-length and transfer-encoding occur together")
        if coding.lower() != b"chunked":
            raise _malformed("the transfer-encoding is not 'chunked'")
        if http_version == "1.0":
            raise _malformed("transfer-encoding does not exist in HTTP/1.0")
        return None, True
    return _length(length), False


def _length(length: bytes | None) -> int | None:
    if length is None:
        return None
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        raise _malformed("the content-length is not a number")
    return int(length)


def _form(form: re.Pattern[bytes], value: bytes) -> str | None:
    """Give a value as text if it has this form; otherwise it is as good as absent."""
    return None if form.fullmatch(value) is None else value.decode("ascii")


def _malformed(detail: str) -> Malformed:
    return Malformed(Reason.HEADERS_MALFORMED, detail)
