"""Proof that the caller has the key to which a token is bound: DPoP (RFC 9449).

Enters: the proof of a request, the request as it is judged here, the time, the nonces of this process. Leaves:
``Proof`` with the thumbprint of its key, which must be the one in the token. A proof is for one request: for its
method, its address, its token, a nonce of ours, and once. Nobody vouches for the key itself: it is the token that does.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from gateway.identity import claims, compact_jws
from gateway.identity.access_token import media_type
from gateway.identity.key_set import single_key
from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHMS: Final = ("ES256", "ES384", "EdDSA", "Ed25519", "PS256", "RS256")
NONCE_WANTED: Final = "use_dpop_nonce"
"""The error code of a challenge to a proof that lacks only a nonce (RFC 9449 §9)."""
LARGEST_DIFFERENCE_S = 300
"""How far the clock of a caller may be from ours: the nonce, not the clock, makes a proof a fresh one."""
NONCE_LIFE_S = 150
MOST_REMEMBERED = 100_000

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_HEADER_MEMBERS = frozenset({"typ", "alg", "jwk"})


class Asked(NamedTuple):
    """The request that a proof is for, as the gateway judges it; ``host`` is one that is served here.

    ``certificate``: the thumbprint of the client's certificate on this connection, which can take the proof's place.
    """

    method: str
    host: str
    path: str
    certificate: str | None = None


class NonceWanted(Exception):  # noqa: N818  (says what is so)
    """The proof is in order but for its nonce: the caller is given one and asks again (RFC 9449 §9)."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof that holds. ``key``: the thumbprint of the key (RFC 7638). ``id``: told once by whoever made it."""

    key: str
    id: str


class Nonces:
    """Nonces that need no memory: each stretch of time has one, and it is good in the next stretch too."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def current(self, now: float) -> str:
        """Give the nonce for a proof that is made now."""
        return self._of(int(now // NONCE_LIFE_S))

    def holds(self, nonce: object, now: float) -> bool:
        """Tell whether a nonce was given out a short while ago."""
        stretch = int(now // NONCE_LIFE_S)
        sent = nonce.encode() if isinstance(nonce, str) else b""
        return any(hmac.compare_digest(self._of(one).encode(), sent) for one in (stretch, stretch - 1))

    def _of(self, stretch: int) -> str:
        return _base64url(hmac.digest(self._secret, str(stretch).encode(), "sha256"))


class SeenProofs:
    """Proofs that were used already (RFC 9449 §11.1), each for as long as its nonce could be good."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def use(self, proof: Proof, now: float) -> None:
        """Use a proof up. Raises ``Malformed(CREDENTIAL_INVALID)`` if it was used before, or nothing more fits."""
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        place = (proof.key, sha256(proof.id.encode()).hexdigest())
        if place in self._until:
            raise invalid("the proof was used before")
        if len(self._until) >= self._most:
            raise invalid("more proofs came than can be told apart")
        self._until[place] = now + 2 * NONCE_LIFE_S


class Proofs:
    """What one process must remember of proofs, whatever policies come and go."""

    def __init__(self, secret: bytes) -> None:
        self.nonces = Nonces(secret)
        self.seen = SeenProofs()


def read(proof: str, token: str, asked: Asked, now: float, nonces: Nonces) -> Proof:
    """Verify a proof (RFC 9449 §4.3). Raises ``Malformed(CREDENTIAL_INVALID)`` and ``NonceWanted``."""
    header, told, signing_input, signature = compact_jws.take_apart(proof)
    if header.keys() != _HEADER_MEMBERS or media_type(_text(header, "typ")) != "application/dpop+jwt":
        raise invalid("the proof's header has not exactly typ dpop+jwt, alg and jwk")
    key = single_key(header["jwk"], _text(header, "alg"))
    if key is None or not key.verifies(signing_input, signature):
        raise invalid("the proof is not signed with the public key that it bears")
    if told.get("htm") != asked.method or not _is_for(told.get("htu"), asked):
        raise invalid("the proof is for another request")
    if told.get("ath") != _base64url(sha256(token.encode()).digest()):
        raise invalid("the proof is for another token")
    if abs(claims.moment(told, "iat") - now) > LARGEST_DIFFERENCE_S:
        raise invalid("the proof was made too long ago, or is yet to be made")
    identifier = claims.name(told, "jti")
    if not nonces.holds(told.get("nonce"), now):
        raise NonceWanted
    return Proof(key.thumbprint, identifier)


def _is_for(htu: object, asked: Asked) -> bool:
    """Tell whether a proof's address is this request's; the query is not part of it (RFC 9449 §4.2)."""
    try:
        parts = urlsplit(htu) if isinstance(htu, str) else None
        if parts is None or parts.username is not None or not parts.hostname:
            return False
        secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        usual = 443 if parts.scheme == "https" else 80
        port = parts.port or usual
    except ValueError:
        return False
    host = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
    spellings = {f"{host}:{port}", host} if port == usual else {f"{host}:{port}"}
    return secure and asked.host.lower() in spellings and parts.path == asked.path


def _text(header: Mapping[str, Any], member: str) -> str:
    value = header[member]
    return value if type(value) is str else ""


def _base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
