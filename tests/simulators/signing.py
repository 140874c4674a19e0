"""Keys of an issuer and of its attacker, and signatures of every sort, good and forged.

Enters: a header and claims, as objects or as raw bytes. Leaves: compact tokens. Nothing is checked: the point is to
make what a careful library refuses to make.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from joserfc.jwa import JWS_ALGORITHMS
from joserfc.jwk import ECKey, OKPKey, RSAKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    Pair = RSAKey | ECKey | OKPKey

_SCHEMES = {scheme.name: scheme for scheme in JWS_ALGORITHMS}


@dataclass(frozen=True)
class SigningKey:
    """A key pair, the algorithm that it signs with by itself, and what its public JWK says besides the key."""

    kid: str
    algorithm: str
    pair: Pair = field(repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def public(self) -> dict[str, Any]:
        """The JWK as a key set would hold it."""
        parts = {name: value for name, value in self.pair.as_dict(private=False).items() if name != "kid"}
        return {**parts, "kid": self.kid, "use": "sig", **self.extra}

    @property
    def pem(self) -> bytes:
        """The public key as PEM text, which an attacker has too."""
        return self.pair.as_bytes("PEM")

    @property
    def der(self) -> bytes:
        """The public key as DER octets."""
        return self.pair.as_bytes("DER")

    def sign(self, signing_input: bytes, algorithm: str | None = None) -> bytes:
        """Make a signature."""
        return _SCHEMES[algorithm or self.algorithm].sign(signing_input, self.pair)


@cache
def rsa(name: str, bits: int = 2048) -> Pair:
    """Make an RSA pair once per run and name."""
    return RSAKey.generate_key(bits)


@cache
def ec(name: str, curve: str = "P-256") -> Pair:
    """Make an EC pair once per run and name."""
    return ECKey.generate_key(curve)


@cache
def okp(name: str) -> Pair:
    """Make an Ed25519 pair once per run and name."""
    return OKPKey.generate_key("Ed25519")


def default_keys(name: str = "a") -> dict[str, SigningKey]:
    """Give the keys of an issuer by the names that the corpus uses.

    ``ATT`` is the attacker's and ``B1`` is K1 of the issuer named b: neither is for the key set.
    """
    return {
        "K1": SigningKey("k1", "RS256", rsa(name)),
        "E1": SigningKey("e1", "ES256", ec(name)),
        "KPS": SigningKey("ps1", "PS256", rsa(f"{name} pss"), {"alg": "PS256"}),
        "ED": SigningKey("ed1", "EdDSA", okp(name), {"alg": "EdDSA"}),
        "ATT": SigningKey("attacker", "RS256", rsa("attacker")),
        "B1": SigningKey("k1", "RS256", rsa("b")),
    }


def part(octets: bytes) -> str:
    """Encode one part of a token."""
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def signing_input(header: Mapping[str, Any] | bytes, claims: Mapping[str, Any] | bytes) -> bytes:
    """Encode header and claims; raw bytes stay as they are."""
    header_octets = header if isinstance(header, bytes) else json.dumps(header).encode()
    claims_octets = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return f"{part(header_octets)}.{part(claims_octets)}".encode()


def compact(message: bytes, signature: bytes) -> str:
    """Put a token together."""
    return f"{message.decode()}.{part(signature)}"


def hmac_sha256(secret: bytes, message: bytes) -> bytes:
    """Make the signature of an ``HS256`` token, with any secret at all."""
    return hmac.new(secret, message, hashlib.sha256).digest()
