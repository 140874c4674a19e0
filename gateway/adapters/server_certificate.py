"""What a listener that speaks TLS shows to clients, and what it asks of them (RFC 8446, RFC 5246, RFC 9325).

Enters: the files of ``GATEWAY_TLS__<LISTENER>__…``. Leaves: ``current``, what the next handshake is made with. A file
that cannot be used is an error at the start; later the old ones stay in force, so that no connection is lost to a
renewal that went wrong. Handshakes are not its business.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, cast

import structlog
from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificates

from gateway.adapters.listening import Unusable

if TYPE_CHECKING:
    from pathlib import Path
    from socket import socket

MOST_BYTES = 1024 * 1024

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption alone (RFC 9325 §4.2); TLS 1.3 has no others."""

LINE: ContextVar[socket | None] = ContextVar("LINE", default=None)
"""The connection whose handshake this task makes."""

_READABLE_BY_ALL, _WRITABLE_BY_OTHERS = 0o004, 0o022

_log = structlog.get_logger("gateway.tls")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the files are. ``setting``: the part of the variables' names that they share, for sentences.

    ``client_ca``: who must have signed the certificate that every client has to show; ``None`` asks for none.
    """

    setting: str
    cert: Path
    key: Path
    client_ca: Path | None = None


class ServerCertificate:
    """The files of one listener, as they were when they were last read well. Raises ``Unusable``.

    ``current``: what the next handshake is made with. ``expires``: when the first certificate of its chain ends, in
    Unix time; ``None`` where it cannot be told.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = b""
        self._complained = ""
        self.expires: float | None = None
        self.current = self._load()

    def refresh(self) -> None:
        """Use new files from the next handshake on, or say once why the old ones stay."""
        try:
            if self._digest() == self._seen:
                return
            self.current = self._load()
        except Unusable as error:
            if str(error) != self._complained:
                self._complained = str(error)
                _log.error("certificate not read again: the old one stays in use", why=str(error))
            return
        self._complained = ""
        _log.info("certificate read again", file=str(self._files.cert))

    def _load(self) -> ssl.SSLContext:
        digest = self._digest()
        made = server_side(self._files)
        self.expires = expiry(_read(f"{self._files.setting}__CERT", self._files.cert))
        self._seen = digest  # of before: what changed meanwhile is seen at the next look
        return made

    def _digest(self) -> bytes:
        files = self._files
        digest = sha256()
        for field, path in (("CERT", files.cert), ("KEY", files.key), ("CLIENT_CA", files.client_ca)):
            if path is not None:
                octets = _read(f"{files.setting}__{field}", path)
                digest.update(b"%d\0%b" % (len(octets), octets))
        return digest.digest()


class _Handshake(ssl.SSLObject):
    """Says why a handshake failed, as far as TLS has a word for it (RFC 8446 §6.2).

    OpenSSL writes the alert, and event loops close the connection before they have sent it. It also lets a client of
    TLS 1.2 go on with a session, whose certificate it does not look at again.
    """

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises ``SSLError``, also where a session outlived its certificate."""
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError:
            line = LINE.get()
            if line is not None:
                with contextlib.suppress(OSError):
                    line.send(self.outgoing.read())
            raise
        shown = self.getpeercert(binary_form=True) if self.session_reused else None
        if shown is not None and not _is_good(shown):
            raise ssl.SSLCertVerificationError("the certificate of this session has expired")


def _is_good(der: bytes) -> bool:
    """Tell whether a certificate has not expired; of one that only OpenSSL can read this cannot be told."""
    try:
        return time.time() < load_der_x509_certificate(der).not_valid_after_utc.timestamp()
    except ValueError:
        return False


class _ServerSide(ssl.SSLContext):
    sslobject_class = _Handshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002  (the standard library's signature)
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a handshake, as the event loop does."""
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        cast("_Handshake", made).outgoing = outgoing
        return made


def server_side(files: TlsFiles) -> ssl.SSLContext:
    """Make what handshakes are made with. Raises ``Unusable``.

    TLS 1.2 and 1.3, no renegotiation (RFC 9325 §3.5), HTTP/1.1 alone (RFC 7301). Where clients must show certificates
    there are no tickets. OpenSSL remembers sessions of TLS 1.2 by their number all the same, and Python cannot tell it
    not to: one is taken up again only while its certificate is good, and never behind a change of the files, which
    makes another context. It is not made by ``create_default_context``, which would write keys to wherever
    ``SSLKEYLOGFILE`` says.
    """
    _warn_of_others(files)
    tls = _ServerSide(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers(CIPHERS)
    tls.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    tls.set_alpn_protocols(["http/1.1"])
    _load_pair(tls, files)
    if files.client_ca is not None:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Python 3.13 and later
        tls.options |= ssl.OP_NO_TICKET
        tls.num_tickets = 0
        _load_authorities(tls, f"{files.setting}__CLIENT_CA", files.client_ca)
    return tls


def expiry(pem: bytes) -> float | None:
    """Give the Unix time at which the first of these certificates ends (RFC 5280 §4.1.2.5); ``None``: cannot be told.

    OpenSSL takes some that the stricter parser does not: they are served, and have no such time.
    """
    try:
        return min(one.not_valid_after_utc.timestamp() for one in load_pem_x509_certificates(pem))
    except ValueError:
        return None


def _load_pair(tls: ssl.SSLContext, files: TlsFiles) -> None:
    cert, key = f"{files.setting}__CERT", f"{files.setting}__KEY"
    if b"-----BEGIN CERTIFICATE-----" not in _read(cert, files.cert):
        raise Unusable(f"{cert}: {files.cert} holds no certificate in PEM.")
    if b"PRIVATE KEY-----" not in _read(key, files.key):
        raise Unusable(f"{key}: {files.key} holds no private key in PEM.")
    try:
        tls.load_cert_chain(files.cert, files.key, password=_no_password)
    except _Encrypted:
        raise Unusable(f"{key}: {files.key} is encrypted: nobody is there to type the password; decrypt it.") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Unusable(f"{key}: {files.key} is not the key of the certificate in {files.cert}.") from None
        raise Unusable(f"{cert} and {key} cannot be used: {_reason(error)}.") from None


def _load_authorities(tls: ssl.SSLContext, setting: str, path: Path) -> None:
    _read(setting, path)
    try:
        tls.load_verify_locations(path)
    except ssl.SSLError as error:
        raise Unusable(f"{setting}: {path} holds no usable certificates in PEM: {_reason(error)}.") from None


def _warn_of_others(files: TlsFiles) -> None:
    """Say so where the key is not the gateway's alone; a group may read it, as system packages set it up."""
    mode = files.key.stat().st_mode if files.key.exists() else 0
    if mode & (_READABLE_BY_ALL | _WRITABLE_BY_OTHERS):
        _log.warning("others can read or replace the private key: set its mode to 0600", file=str(files.key))


class _Encrypted(Exception):  # noqa: N818  (says what is so)
    """The private key has a password."""


def _no_password() -> str:
    raise _Encrypted


def _read(setting: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            octets = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unusable(f"{setting}: {path} cannot be read: {error.strerror}.") from None
    if len(octets) > MOST_BYTES:
        raise Unusable(f"{setting}: {path} is larger than {MOST_BYTES} bytes.")
    return octets


def _reason(error: ssl.SSLError) -> str:
    """Give OpenSSL's own word for what is wrong."""
    return (error.reason or "not valid PEM").lower().replace("_", " ")
