from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.reasons import Malformed, Reason
from gateway.wire.field_lines import FieldLines
from gateway.wire.headers import LONGEST_FIELD, MOST_BYTES, MOST_FIELDS, RequestHeaders, media_type_is_json
from gateway.wire.hosts import HostRule

HOSTS = HostRule.of_tcp(8080, [], loopback=True)
HOST = (b"host", b"127.0.0.1:8080")


def _parse(*fields: tuple[bytes, bytes], version: str = "1.1") -> RequestHeaders:
    return RequestHeaders.parse([HOST, *fields], http_version=version, hosts=HOSTS)


def _read(
    *fields: tuple[bytes, bytes], version: str = "1.1", known: frozenset[bytes] = frozenset()
) -> RequestHeaders | tuple[Reason, str]:
    """Give what comes of field lines as they were sent: their fields or what is wrong with them."""
    try:
        return RequestHeaders.read(FieldLines.of(fields), http_version=version, hosts=HOSTS, known=known)
    except Malformed as refused:
        return refused.reason, refused.detail


def _parsed(*fields: tuple[bytes, bytes], version: str = "1.1") -> RequestHeaders | tuple[Reason, str]:
    """Give the same, the long way."""
    try:
        return RequestHeaders.parse(FieldLines.of(fields).pairs(), http_version=version, hosts=HOSTS)
    except Malformed as refused:
        return refused.reason, refused.detail


def _reason(*fields: tuple[bytes, bytes], version: str = "1.1") -> Reason:
    with pytest.raises(Malformed) as refused:
        _parse(*fields, version=version)
    return refused.value.reason


def test_a_request_with_nothing_but_a_host_has_no_body_and_no_credential() -> None:
    headers = _parse()
    assert headers == RequestHeaders("127.0.0.1:8080")
    assert not headers.has_body


TOKEN = b"Bearer " + b"t" * 200
SEEN = frozenset({sha256(TOKEN).digest()})
_SENT = st.lists(
    st.tuples(
        st.sampled_from([
            b"authorization", b"Authorization", b"content-type", b"content-length", b"accept", b"cookie", b"Host",
            b"x-api-key", b"x-request-id", b"connection", b"proxy-connection", b"", b"a b", b"dpop",
        ]),
        st.sampled_from([
            b"", b"5", b"007", b"1" * 19, b"a ", b"a\t", b"a\tb", b"a \xffb", b"\x01", b"\x7f", b"\xff",
            b"127.0.0.1:8080", TOKEN, TOKEN + b" ", TOKEN + b"\x01", b"t" * (LONGEST_FIELD - 20), b"t" * LONGEST_FIELD,
        ]),
    ),
    max_size=5,
)  # fmt: skip


@given(_SENT, st.sampled_from(["1.1", "1.0", "2.0"]), st.booleans())
def test_what_is_read_at_once_is_what_is_read_the_long_way(
    fields: list[tuple[bytes, bytes]],
    version: str,
    host: bool,  # noqa: FBT001
) -> None:
    sent = [*fields, HOST] if host else fields
    long_way = _parsed(*sent, version=version)
    assert _read(*sent, version=version) == long_way
    known = _read(*sent, version=version, known=SEEN)
    assert (known._replace(known_as=None) if isinstance(known, RequestHeaders) else known) == long_way


def test_a_field_that_was_looked_at_before_is_known_in_a_plain_head_alone() -> None:
    def known_as(*fields: tuple[bytes, bytes], version: str = "1.1") -> bytes | None:
        headers = _read(HOST, *fields, version=version, known=SEEN)
        assert isinstance(headers, RequestHeaders)
        return headers.known_as

    plain = (b"Authorization", TOKEN)
    assert known_as(plain, (b"accept", b"*/*"), (b"content-length", b"5")) == sha256(TOKEN).digest()
    assert known_as((b"authorization", TOKEN + b"t")) is None
    assert known_as((b"authorization", b"Bearer key")) is None
    assert known_as(plain, version="1.0") is None
    for name in (b"x-api-key", b"dpop", b"cf-access-jwt-assertion", b"authorization", b"origin", b"x-request-id"):
        assert known_as(plain, (name, b"1")) is None
    assert known_as(plain, (b"accept", b"*/* ")) is None, "there is white space to cut"


def test_a_listener_that_serves_any_host_reads_a_plain_head_at_once_as_well() -> None:
    fields = FieldLines.of([(b"Host", b"Any.Example"), (b"authorization", TOKEN)])
    headers = RequestHeaders.read(fields, http_version="1.1", hosts=HostRule.of_unix(), known=SEEN)
    assert (headers.host, headers.known_as) == ("any.example", sha256(TOKEN).digest())


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [(b"accept", b"*/*")],
        [(b"authorization", b"Bearer short")],
        [
            (b"authorization", b"Bearer " + b"x" * 200),
            (b"content-type", b"application/json"),
            (b"content-length", b"7"),
        ],
    ],
    ids=["host", "accept", "key", "token"],
)
def test_a_plain_head_with_or_without_each_of_its_fields_is_read_as_any_other(
    fields: list[tuple[bytes, bytes]],
) -> None:
    assert _read(HOST, *fields, known=SEEN) == _parsed(HOST, *fields)


def test_what_stands_beside_a_known_field_is_looked_at() -> None:
    known = (b"authorization", TOKEN)
    assert _read(HOST, known, (b"accept", b"\x00"), known=SEEN) == _parsed(HOST, known, (b"accept", b"\x00"))
    assert _read((b"host", b"evil.example"), known, known=SEEN) == (Reason.HOST_NOT_SERVED, "")
    assert _read(HOST, (b"authorization", TOKEN + b"\x00")) == (
        Reason.HEADERS_MALFORMED,
        "a field value holds a control character",
    )


_OFTEN = st.lists(
    st.tuples(
        st.sampled_from([b"authorization", b"content-type", b"content-length", b"user-agent", b"cookie", b"host"]),
        st.sampled_from([b"", b"5", b"007", b"1" * 19, b"a", b"Bearer t", b"\x01", b"127.0.0.1:8080"]),
    ),
    max_size=5,
)


@given(_OFTEN, st.sampled_from(["1.1", "1.0", "2.0"]))
def test_a_field_that_is_seldom_there_changes_nothing_about_the_others(
    fields: list[tuple[bytes, bytes]], version: str
) -> None:
    def seen(*more: tuple[bytes, bytes]) -> RequestHeaders | Reason:
        try:
            return _parse(*fields, *more, version=version)._replace(request_id=None)
        except Malformed as refused:
            return refused.reason

    assert seen() == seen((b"x-request-id", b"abc"))


def test_the_fields_that_later_rooms_read_are_given_and_no_others() -> None:
    headers = _parse(
        (b"authorization", b"Bearer t"),
        (b"x-api-key", b"k"),
        (b"cf-access-jwt-assertion", b"a.b.c"),
        (b"content-type", b"application/json"),
        (b"content-length", b"57"),
        (b"content-encoding", b"gzip"),
        (b"expect", b"100-Continue"),
        (b"origin", b"https://a.example"),
        (b"x-request-id", b"abc-1.2_3"),
        (b"cf-connecting-ip", b"2001:db8::1"),
        (b"cf-ray", b"8f00b204e9800998-AMS"),
        (b"dpop", b"d.e.f"),
        (b"cookie", b"a=b"),
        (b"x-forwarded-for", b"10.0.0.1"),
    )
    assert headers == RequestHeaders(
        host="127.0.0.1:8080",
        authorization=b"Bearer t",
        x_api_key=b"k",
        access_assertion=b"a.b.c",
        content_type=b"application/json",
        content_length=57,
        content_encoding=b"gzip",
        expects_continue=True,
        origin=b"https://a.example",
        request_id="abc-1.2_3",
        cf_connecting_ip="2001:db8::1",
        cf_ray="8f00b204e9800998-AMS",
        dpop=b"d.e.f",
    )
    assert headers.has_body


def test_its_repr_shows_no_credential() -> None:
    assert "secret" not in repr(_parse((b"authorization", b"Bearer secret"), (b"x-api-key", b"secret")))


HOSTILE = {
    "cl.te (framing-001)": [(b"content-length", b"57"), (b"transfer-encoding", b"chunked")],
    "te.cl (framing-002)": [(b"transfer-encoding", b"chunked"), (b"content-length", b"4")],
    "two equal content-lengths (framing-003)": [(b"content-length", b"5"), (b"content-length", b"5")],
    "listed content-length (framing-005)": [(b"content-length", b"57, 57")],
    "plus sign (framing-006)": [(b"content-length", b"+57")],
    "hexadecimal (framing-007)": [(b"content-length", b"0x39")],
    "minus sign": [(b"content-length", b"-1")],
    "empty content-length": [(b"content-length", b"")],
    "underscore in a number": [(b"content-length", b"5_7")],
    "Arabic digits": [(b"content-length", "\u0665".encode())],
    "overflow (framing-010)": [(b"content-length", b"99999999999999999999999999")],
    "vertical tab (framing-015)": [(b"transfer-encoding", b"\x0bchunked")],
    "two transfer-encodings (framing-016)": [(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"identity")],
    "chunked not last (framing-017)": [(b"transfer-encoding", b"chunked, identity")],
    "gzip before chunked": [(b"transfer-encoding", b"gzip, chunked")],
    "chunked twice": [(b"transfer-encoding", b"chunked, chunked")],
    "chunked with parameter": [(b"transfer-encoding", b"chunked;q=1")],
    "two hosts (header-001)": [(b"host", b"evil.example")],
    "two equal hosts": [HOST],
    "two content-types (json-082)": [(b"content-type", b"application/json"), (b"content-type", b"text/plain")],
    "two content-encodings": [(b"content-encoding", b"identity"), (b"content-encoding", b"gzip")],
    "two expects": [(b"expect", b"100-continue"), (b"expect", b"100-continue")],
    "unknown expectation (framing-031)": [(b"expect", b"200-maybe")],
    "h2c (framing-038)": [(b"upgrade", b"h2c")],
    "websocket": [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")],
    "upgrade nominated alone": [(b"connection", b"keep-alive, UPGRADE")],
    "upgrade nominated in a second field": [(b"connection", b"close"), (b"connection", b"upgrade")],
    "h2c settings": [(b"http2-settings", b"AAMAAABkAARAAAAAAAIAAAAA")],
    "h2c settings nominated": [(b"connection", b"HTTP2-Settings")],
    "NUL in a value": [(b"x", b"a\x00b")],
    "CR in a value (header-028)": [(b"x", b"a\rb")],
    "LF in a value": [(b"x", b"a\nb")],
    "DEL in a value": [(b"x", b"a\x7fb")],
    "space in a name": [(b"x y", b"a")],
    "colon in a name": [(b"x:y", b"a")],
    "upper case in a name": [(b"Host", b"127.0.0.1:8080")],
    "8-bit byte in a name": [(b"x\xe9", b"a")],
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_can_be_read_in_two_ways_is_malformed(fields: list[tuple[bytes, bytes]]) -> None:
    assert _reason(*fields) is Reason.HEADERS_MALFORMED


def test_a_request_without_a_host_is_malformed() -> None:
    for fields in ([], [(b"accept", b"*/*")]):
        with pytest.raises(Malformed) as refused:
            RequestHeaders.parse(fields, http_version="1.1", hosts=HOSTS)
        assert refused.value.reason is Reason.HEADERS_MALFORMED


def test_a_host_that_is_not_served_is_told_apart_from_a_malformed_one() -> None:
    with pytest.raises(Malformed) as refused:
        RequestHeaders.parse([(b"host", b"evil.example")], http_version="1.1", hosts=HOSTS)
    assert refused.value.reason is Reason.HOST_NOT_SERVED


def test_broken_framing_is_told_before_a_foreign_host() -> None:
    fields = [(b"host", b"evil.example"), (b"content-length", b"x")]
    with pytest.raises(Malformed) as refused:
        RequestHeaders.parse(fields, http_version="1.1", hosts=HOSTS)
    assert refused.value.reason is Reason.HEADERS_MALFORMED


def test_the_name_of_the_chunked_coding_is_not_case_sensitive() -> None:
    headers = _parse((b"transfer-encoding", b"CHUNKED"))
    assert headers.chunked
    assert headers.content_length is None
    assert headers.has_body


def test_a_length_of_zero_is_no_body() -> None:
    headers = _parse((b"content-length", b"0"))
    assert headers.content_length == 0
    assert not headers.has_body


def test_http_1_0_has_no_chunks_and_no_interim_answers() -> None:
    assert _reason((b"transfer-encoding", b"chunked"), version="1.0") is Reason.HEADERS_MALFORMED
    assert not _parse((b"expect", b"100-continue"), version="1.0").expects_continue
    assert _parse((b"content-length", b"5"), version="1.0").content_length == 5


@pytest.mark.parametrize("version", ["2.0", "1.2", "0.9", ""])
def test_no_other_version_of_http_is_spoken(version: str) -> None:
    assert _reason(version=version) is Reason.HEADERS_MALFORMED


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key", b"cf-access-jwt-assertion", b"dpop"])
def test_a_credential_sent_twice_leaves_none_and_is_noted(name: bytes) -> None:
    """The gatehouse answers, since an unknown path comes first; until then nothing can pick one of the two."""
    once = [(b"authorization", b"a"), (b"x-api-key", b"b"), (b"cf-access-jwt-assertion", b"c"), (b"dpop", b"d")]
    headers = _parse(*once, (name, b"a"))
    assert headers.credential_repeated
    assert headers.authorization is headers.x_api_key is headers.access_assertion is headers.dpop is None


def test_repeated_fields_that_nobody_reads_are_no_matter() -> None:
    assert not _parse((b"x", b"1"), (b"x", b"2"), (b"connection", b"close"), (b"connection", b"x")).credential_repeated


def test_other_spellings_of_a_trusted_name_do_not_exist() -> None:
    """header-020: underscores become hyphens in some servers."""
    headers = _parse((b"cf_access_jwt_assertion", b"a"), (b"authorization_", b"b"), (b"content_length", b"5"))
    assert headers == RequestHeaders("127.0.0.1:8080")


@pytest.mark.parametrize(
    "name,value",
    [
        (b"x-request-id", b"a\tb; DROP"),
        (b"x-request-id", b"a" * 129),
        (b"x-request-id", b""),
        (b"cf-connecting-ip", b"localhost"),
        (b"cf-connecting-ip", b"10.0.0.1, 10.0.0.2"),
        (b"cf-ray", b"<script>"),
    ],
)
def test_a_mark_of_the_wrong_form_is_as_good_as_absent(name: bytes, value: bytes) -> None:
    assert _parse((name, value)) == RequestHeaders("127.0.0.1:8080")


def test_bytes_above_ascii_pass_in_values() -> None:
    assert _parse((b"x-note", "h\u00e9".encode()), (b"content-type", b"\xff")).content_type == b"\xff"


def test_the_most_fields_are_read_and_one_more_is_too_large() -> None:
    most = [(b"x-%d" % number, b"a") for number in range(MOST_FIELDS - 1)]
    _parse(*most)
    assert _reason(*most, (b"y", b"a")) is Reason.HEADERS_TOO_LARGE


def test_the_longest_field_is_read_and_one_byte_more_is_too_large() -> None:
    _parse((b"x", b"a" * (LONGEST_FIELD - 1)))
    assert _reason((b"x", b"a" * LONGEST_FIELD)) is Reason.HEADERS_TOO_LARGE


def test_the_most_bytes_are_read_and_one_more_is_too_large() -> None:
    rest = MOST_BYTES - len(HOST[0]) - len(HOST[1]) - 2 * LONGEST_FIELD + 1000
    fields = [(b"x", b"a" * (LONGEST_FIELD - 1)), (b"y", b"a" * (LONGEST_FIELD - 1001)), (b"z", b"a" * (rest - 1))]
    _parse(*fields)
    assert _reason(*fields, (b"w", b"")) is Reason.HEADERS_TOO_LARGE


@pytest.mark.parametrize(
    "content_type,expected",
    [
        (b"application/json", True),
        (b"APPLICATION/JSON", True),
        (b"application/json; charset=utf-8", True),
        (b"application/json;charset=UTF-8", True),
        (b'application/json ; charset="utf-8"', True),
        (None, False),
        (b"", False),
        (b"text/plain", False),
        (b"application/json; charset=utf-16", False),
        (b"application/json; charset=latin1", False),
        (b"application/json; charset=utf-8; charset=utf-16", False),
        (b"application/json; boundary=x", False),
        (b"application/json, text/plain", False),
        (b"application/vnd.api+json", False),
        (b"application/json-seq", False),
        (b"application/x-www-form-urlencoded", False),
        (b"application/json\n", False),
    ],
)
def test_json_is_one_media_type_in_one_encoding(content_type: bytes | None, expected: bool) -> None:  # noqa: FBT001
    assert media_type_is_json(content_type) is expected


_names = st.sampled_from([
    b"host", b"authorization", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"x", b"",
])  # fmt: skip
_values = st.sampled_from([b"127.0.0.1:8080", b"", b"5", b"chunked", b"upgrade", b"a\r\nb", b"Bearer t"]) | st.binary()


@given(st.lists(st.tuples(_names, _values), max_size=8), st.sampled_from(["1.0", "1.1", "2.0"]))
def test_whatever_is_accepted_has_one_host_and_one_framing(fields: list[tuple[bytes, bytes]], version: str) -> None:
    try:
        headers = RequestHeaders.parse(fields, http_version=version, hosts=HOSTS)
    except Malformed:
        return
    names = [name for name, _ in fields]
    assert names.count(b"host") == 1
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    assert b"upgrade" not in names
    assert headers.credential_repeated == (names.count(b"authorization") > 1)
