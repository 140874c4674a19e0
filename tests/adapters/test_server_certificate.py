"""What a listener shows of itself: read well or not at all, and read again without losing what was good."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.adapters.listening import Unusable
from gateway.adapters.server_certificate import LINE, MOST_BYTES, ServerCertificate, TlsFiles, expiry
from tests.simulators.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from pathlib import Path

    from tests.simulators.certificates import Pair

SETTING = "GATEWAY_TLS__PUBLIC"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.server()


@pytest.fixture
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def files(pair: Pair, client_ca: Path | None = None) -> TlsFiles:
    return TlsFiles(SETTING, pair.cert, pair.key, client_ca)


def sentence(given: TlsFiles) -> str:
    with pytest.raises(Unusable) as caught:
        ServerCertificate(given)
    return str(caught.value)


def test_what_is_offered_is_what_rfc_9325_recommends(pair: Pair) -> None:
    tls = ServerCertificate(files(pair)).current
    assert tls.minimum_version is ssl.TLSVersion.TLSv1_2
    assert tls.verify_mode is ssl.CERT_NONE
    assert tls.options & ssl.OP_NO_RENEGOTIATION
    assert tls.options & ssl.OP_NO_COMPRESSION
    offered = {cipher["name"] for cipher in tls.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert offered
    assert all(name.startswith("ECDHE-") and ("GCM" in name or "CHACHA20" in name) for name in offered)


def test_with_an_authority_every_client_must_show_a_certificate(pair: Pair, authority: Authority) -> None:
    tls = ServerCertificate(files(pair, authority.ca)).current
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert len(tls.get_ca_certs()) == 1, "and nobody vouches but who was named"


def showing(authority: Authority, shown: Pair, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Make a client that shows a certificate, and remembers its sessions."""
    tls = ssl.create_default_context(cafile=authority.ca)
    tls.maximum_version = version
    tls.load_cert_chain(shown.cert, shown.key)
    return tls


def test_tls_13_takes_up_no_session_again_where_certificates_are_shown(pair: Pair, authority: Authority) -> None:
    """It would go on with a certificate that may have expired since."""
    served = ServerCertificate(files(pair, authority.ca)).current
    tls = showing(authority, authority.client(), ssl.TLSVersion.TLSv1_3)
    first, _still_open = handshake(tls, served)
    assert first.session is not None
    assert not handshake(tls, served, first.session)[0].session_reused


def test_a_session_of_tls_12_is_not_taken_up_again_when_its_certificate_has_expired(
    pair: Pair, authority: Authority
) -> None:
    """The other ends stay open: OpenSSL forgets the sessions of connections that break off."""
    served = ServerCertificate(files(pair, authority.ca)).current
    tls = showing(authority, authority.client(lasts=timedelta(seconds=3)), ssl.TLSVersion.TLSv1_2)
    first, _still_open = handshake(tls, served)
    _, second = handshake(tls, served, first.session)
    assert second.session_reused
    time.sleep(3.1)
    with pytest.raises(ssl.SSLCertVerificationError, match="the certificate of this session has expired"):
        handshake(tls, served, first.session)


def test_no_session_is_taken_up_again_behind_a_change_of_the_files(pair: Pair, authority: Authority) -> None:
    """Whoever signed its certificate may be believed no more."""
    certificate = ServerCertificate(files(pair, authority.ca))
    tls = showing(authority, authority.client(), ssl.TLSVersion.TLSv1_2)
    first, _still_open = handshake(tls, certificate.current)
    authority.server()
    certificate.refresh()
    assert not handshake(tls, certificate.current, first.session)[0].session_reused


def handshake(
    tls: ssl.SSLContext, served: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Bring two ends together in memory; give the client's and the server's."""
    here, there, out_here, out_there = (ssl.MemoryBIO() for _ in range(4))
    client = tls.wrap_bio(here, out_here, server_hostname="localhost", session=session)
    server = served.wrap_bio(there, out_there, server_side=True)
    for _ in range(4):
        for side, sent, to in ((client, out_here, there), (server, out_there, here)):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            to.write(sent.read())
    with contextlib.suppress(ssl.SSLWantReadError):
        client.read()  # where 1.3 would have its tickets
    return client, server


def test_a_client_is_told_by_an_alert_why_its_handshake_failed(pair: Pair, authority: Authority) -> None:
    served = ServerCertificate(files(pair, authority.ca)).current
    tls = ssl.create_default_context(cafile=authority.ca)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    here, there = socket.socketpair()
    token = LINE.set(there)
    try:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            handshake(tls, served)
    finally:
        LINE.reset(token)
    assert here.recv(100)[:1] == b"\x15", "a record of the kind alert"
    here.close()
    there.close()
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        handshake(tls, served)


def test_a_file_that_is_not_there_is_named_with_its_setting(pair: Pair, tmp_path: Path) -> None:
    none = tmp_path / "none"
    why = f"{none} cannot be read: No such file or directory."
    assert sentence(TlsFiles(SETTING, none, pair.key)) == f"{SETTING}__CERT: {why}"
    assert sentence(TlsFiles(SETTING, pair.cert, none)) == f"{SETTING}__KEY: {why}"
    assert sentence(files(pair, none)) == f"{SETTING}__CLIENT_CA: {why}"


def test_a_file_of_another_kind_is_told_from_a_good_one(pair: Pair, authority: Authority, tmp_path: Path) -> None:
    other, huge, broken = authority.server("other"), tmp_path / "huge", tmp_path / "broken"
    locked = authority.server("locked", password=b"secret")
    huge.write_bytes(b"x" * (MOST_BYTES + 1))
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "utf-8")
    assert (
        sentence(TlsFiles(SETTING, pair.key, pair.key)) == f"{SETTING}__CERT: {pair.key} holds no certificate in PEM."
    )
    assert (
        sentence(TlsFiles(SETTING, pair.cert, pair.cert)) == f"{SETTING}__KEY: {pair.cert} holds no private key in PEM."
    )
    assert sentence(TlsFiles(SETTING, pair.cert, other.key)) == (
        f"{SETTING}__KEY: {other.key} is not the key of the certificate in {pair.cert}."
    )
    assert f"{locked.key} is encrypted" in sentence(TlsFiles(SETTING, locked.cert, locked.key))
    assert sentence(TlsFiles(SETTING, broken, pair.key)).startswith(
        f"{SETTING}__CERT and {SETTING}__KEY cannot be used"
    )
    assert sentence(files(pair, pair.key)).startswith(f"{SETTING}__CLIENT_CA: {pair.key} holds no usable certificates")
    assert sentence(files(pair, huge)) == f"{SETTING}__CLIENT_CA: {huge} is larger than {MOST_BYTES} bytes."


@pytest.mark.parametrize("mode, warnings", [(0o600, 0), (0o640, 0), (0o644, 1), (0o660, 1), (0o602, 1)])
def test_a_key_that_others_can_read_or_replace_is_warned_of(
    pair: Pair, logged: list[MutableMapping[str, Any]], mode: int, warnings: int
) -> None:
    pair.key.chmod(mode)
    ServerCertificate(files(pair))
    assert [line["file"] for line in logged] == [str(pair.key)] * warnings


def test_new_files_are_used_and_the_same_ones_are_not_read_again(
    pair: Pair, authority: Authority, logged: list[MutableMapping[str, Any]]
) -> None:
    certificate = ServerCertificate(files(pair, authority.ca))
    first = certificate.current
    certificate.refresh()
    assert certificate.current is first
    other = authority.server("other")
    pair.cert.write_bytes(other.cert.read_bytes())
    pair.key.write_bytes(other.key.read_bytes())
    certificate.refresh()
    assert certificate.current is not first
    assert [line["event"] for line in logged] == ["certificate read again"]


def test_the_end_of_a_certificate_is_known_and_moves_with_a_new_one(pair: Pair, authority: Authority) -> None:
    certificate = ServerCertificate(files(pair))
    first = certificate.expires
    assert first is not None
    assert 0 < first - time.time() <= 3600
    other = authority.server("other", lasts=timedelta(days=2))
    pair.cert.write_bytes(other.cert.read_bytes())
    certificate.refresh()
    assert certificate.expires == first  # its key is yet to come
    pair.key.write_bytes(other.key.read_bytes())
    certificate.refresh()
    assert certificate.expires is not None
    assert certificate.expires - first > 86_400


def test_a_chain_ends_with_the_first_of_its_certificates_that_does(authority: Authority) -> None:
    long, short = (authority.server(name, lasts=timedelta(hours=hours)) for name, hours in (("long", 9), ("short", 1)))
    both = long.cert.read_bytes() + short.cert.read_bytes()
    assert expiry(both) == expiry(short.cert.read_bytes()) != expiry(long.cert.read_bytes())
    assert expiry(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") is None


def test_files_that_do_not_hold_leave_the_old_ones_in_use_and_are_complained_of_once(
    pair: Pair, authority: Authority, logged: list[MutableMapping[str, Any]]
) -> None:
    """A renewal writes one file after the other: between them they do not fit."""
    certificate = ServerCertificate(files(pair))
    first = certificate.current
    other = authority.server("other")
    pair.cert.write_bytes(other.cert.read_bytes())
    for _ in range(3):
        certificate.refresh()
    assert certificate.current is first
    (complaint,) = logged
    assert complaint["event"] == "certificate not read again: the old one stays in use"
    assert "is not the key of the certificate" in str(complaint["why"])
    pair.key.write_bytes(other.key.read_bytes())
    certificate.refresh()
    assert certificate.current is not first
