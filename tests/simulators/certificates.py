"""Certificates of a test: authorities, and what they sign.

Enters: names and times. Leaves: PEM files in a folder, and the thumbprint that a bound token would hold.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as files. ``thumbprint``: ``x5t#S256`` of RFC 8705 §3.1."""

    cert: Path
    key: Path
    thumbprint: str


class Authority:
    """An authority whose own certificate is the file ``ca``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        made = (
            self._builder(self._name, self._key, datetime.now(UTC) + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / f"{name}.ca.pem"
        self.ca.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def server(
        self, name: str = "server", *, password: bytes | None = None, lasts: timedelta = timedelta(hours=1)
    ) -> Pair:
        """Sign a certificate for a server on loopback."""
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        return self._pair(name, ExtendedKeyUsageOID.SERVER_AUTH, names, lasts, password)

    def client(self, name: str = "client", *, lasts: timedelta = timedelta(hours=1)) -> Pair:
        """Sign a certificate for a client; a negative time makes one that has expired."""
        return self._pair(name, ExtendedKeyUsageOID.CLIENT_AUTH, [x509.DNSName(f"{name}.example")], lasts, None)

    def _pair(
        self,
        name: str,
        purpose: x509.ObjectIdentifier,
        names: list[x509.GeneralName],
        lasts: timedelta,
        password: bytes | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            self._builder(subject, key, datetime.now(UTC) + lasts)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        cert, private = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        locked = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(encoding, form, locked))
        private.chmod(0o600)
        digest = sha256(made.public_bytes(serialization.Encoding.DER)).digest()
        return Pair(cert, private, urlsafe_b64encode(digest).rstrip(b"=").decode())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - 30 * DAY)
            .not_valid_after(until)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
