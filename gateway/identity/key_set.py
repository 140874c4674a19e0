"""The public keys of one issuer (RFC 7517 §5), each fit for signatures and for its own algorithms only.

Enters: a JWKS document as bytes. Leaves: ``KeySet`` with ``find``. A key that is not fit is left out and named in
``refused`` by its position; it never spoils the others. A document without a usable key is no key set, so that a broken
answer cannot replace a good set. It fetches nothing and knows no time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from joserfc.errors import JoseError
from joserfc.jwa import JWS_ALGORITHMS
from joserfc.jwk import import_key

from gateway.identity import base64url
from gateway.identity.compact_jws import LONGEST_KEY_ID
from gateway.reasons import Malformed, Reason, Unavailable
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from joserfc.jwa import JWSAlgModel
    from joserfc.jwk import Key

MOST_BYTES = 256 * 1024
MOST_KEYS = 64

_SCHEMES: Mapping[str, JWSAlgModel] = {scheme.name: scheme for scheme in JWS_ALGORITHMS}


class _Family(NamedTuple):
    """Keys of one kind: the members that make one, and the ``alg`` texts for which it fits."""

    members: tuple[str, ...]
    algorithms: tuple[str, ...]


# RFC 7518 §6.2-6.3, RFC 8037 §2. EdDSA and Ed25519 (RFC 9864) are two names of one scheme; each key set and each token
# keeps to the name it uses. Symmetric keys, other curves and kinds to come are not fit.
_FAMILIES: Mapping[tuple[object, object], _Family] = {
    ("RSA", None): _Family(("n", "e"), ("RS256", "PS256")),
    ("EC", "P-256"): _Family(("crv", "x", "y"), ("ES256",)),
    ("EC", "P-384"): _Family(("crv", "x", "y"), ("ES384",)),
    ("OKP", "Ed25519"): _Family(("crv", "x"), ("EdDSA", "Ed25519")),
}
# RFC 7518 §6.2.2, §6.3.2, §6.4.1
_PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
# RFC 7518 §3.3; the upper bound keeps one verification below a millisecond. Exponents as in FIPS 186-5 §5.4.
_RSA_BITS = range(2048, 8192 + 1)
_LEAST_EXPONENT = 65537


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key with the one scheme for which it was asked."""

    scheme: JWSAlgModel
    material: Key

    def verifies(self, signing_input: bytes, signature: bytes) -> bool:
        """Tell whether this key made this signature."""
        return self.scheme.verify(signing_input, signature, self.material)

    @property
    def thumbprint(self) -> str:
        """The SHA-256 of the key in base64url, by which a token can be bound to it (RFC 7638 §3)."""
        return self.material.thumbprint()


@dataclass(frozen=True, slots=True)
class KeySet:
    """Usable keys by (kid, alg). ``refused``: a phrase for each key that was left out, to be logged."""

    keys: Mapping[tuple[str | None, str], VerificationKey]
    refused: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a JWKS document. Raises ``Unavailable(KEYS_UNAVAILABLE)`` when it yields no usable key."""
        if len(data) > MOST_BYTES:
            raise _unusable(f"is larger than {MOST_BYTES} bytes")
        try:
            members = strict_json.loads(data).get("keys")
        except Malformed as error:
            raise _unusable("is not one strict JSON object") from error
        if type(members) is not list or len(members) > MOST_KEYS:
            raise _unusable(f"has no list 'keys' of at most {MOST_KEYS}")
        found: list[tuple[tuple[str | None, str], VerificationKey]] = []
        refused: list[str] = []
        for position, member in enumerate(members):
            try:
                found.extend(_read(member))
            except _Unfit as unfit:
                refused.append(f"keys[{position}] {unfit}")
        # RFC 7517 §4.5: one kid may stand for keys of different kinds. Two of one kind are ambiguous: neither is used.
        often = Counter(place for place, _ in found)
        refused.extend(f"two keys share one kid for {alg}" for (_, alg), times in often.items() if times > 1)
        keys = {place: key for place, key in found if often[place] == 1}
        if not keys:
            raise _unusable("holds no usable key")
        return cls(keys, tuple(refused))

    def knows(self, kid: str | None) -> bool:
        """Tell whether a newer set could not name this kid any better; a token without one names no key at all."""
        return kid is None or any(kid == known for known, _ in self.keys)

    def find(self, kid: str | None, alg: str) -> VerificationKey | None:
        """Give the one key with this id for this algorithm; without an id, the only key of the set."""
        if kid is None and len({known for known, _ in self.keys}) == 1:
            kid = next(known for known, _ in self.keys)
        return self.keys.get((kid, alg))


def single_key(member: object, algorithm: str) -> VerificationKey | None:
    """Read a key that stands alone, for one algorithm; ``None`` if it is not fit for that."""
    try:
        return next((key for (_, alg), key in _read(member) if alg == algorithm), None)
    except _Unfit:
        return None


class _Unfit(Exception):  # noqa: N818  (said of a key, not of us)
    """Why one key of a document is left out."""


def _read(member: Any) -> list[tuple[tuple[str | None, str], VerificationKey]]:  # noqa: ANN401  (any JSON value)
    """Give one key once for each algorithm for which it fits. Raises ``_Unfit``."""
    if type(member) is not dict:
        raise _Unfit("is not an object")
    kind = (member.get("kty"), member.get("crv"))
    family = _FAMILIES.get(kind) if all(part is None or type(part) is str for part in kind) else None
    if family is None:
        raise _Unfit("is of a kind that is not used here")
    if not _PRIVATE_MEMBERS.isdisjoint(member):
        raise _Unfit("is a private key that the issuer has published: it must be replaced")
    kid = member.get("kid")
    if kid is not None and (type(kid) is not str or not 0 < len(kid) <= LONGEST_KEY_ID):
        raise _Unfit(f"has a kid that is not a text of 1 to {LONGEST_KEY_ID} characters")
    algorithms = _purpose(member, family)
    if not all(type(member.get(part)) is str for part in family.members):
        raise _Unfit("lacks a part, or has one that is not a text")
    try:
        if "n" in family.members:
            _check_rsa(_integer(member["n"]), _integer(member["e"]))
        key = import_key({"kty": member["kty"], **{part: member[part] for part in family.members}})
    except (JoseError, ValueError):
        raise _Unfit("is not a valid key") from None
    return [((kid, alg), VerificationKey(_SCHEMES[alg], key)) for alg in algorithms]


def _purpose(member: Mapping[str, Any], family: _Family) -> tuple[str, ...]:
    """Give the algorithms for which a key may be used (RFC 7517 §4.2-4.4). Raises ``_Unfit``."""
    if member.get("use", "sig") != "sig":
        raise _Unfit("is not for signatures")
    operations = member.get("key_ops", ["verify"])
    if type(operations) is not list or "verify" not in operations:
        raise _Unfit("is not for verifying")
    if "alg" not in member:
        return family.algorithms
    if member["alg"] not in family.algorithms:
        raise _Unfit("is for an algorithm that is not used here")
    return (member["alg"],)


def _check_rsa(modulus: int, exponent: int) -> None:
    """Refuse weak keys here: the library only warns."""
    if modulus.bit_length() not in _RSA_BITS or exponent < _LEAST_EXPONENT:
        raise _Unfit(f"has not {_RSA_BITS.start} to {_RSA_BITS.stop - 1} bits, or an exponent below {_LEAST_EXPONENT}")


def _integer(part: str) -> int:
    """Read a Base64urlUInt (RFC 7518 §2). Raises ``ValueError``."""
    return int.from_bytes(base64url.decode(part.encode("ascii")), "big")


def _unusable(what: str) -> Unavailable:
    return Unavailable(Reason.KEYS_UNAVAILABLE, f"the issuer's key set {what}")
