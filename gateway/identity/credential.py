"""Which one credential a request bears, and of which kind it is.

Enters: the credential fields of a request, and at start-up the callers that the plane trusts. Leaves: a
``Credential``, not yet verified, or ``Malformed`` with ``CREDENTIAL_MISSING``, ``CREDENTIAL_AMBIGUOUS`` or
``CREDENTIAL_INVALID``. Its form alone decides the kind; a credential that fails as one kind is never tried as another.
Query, body and cookies carry none (RFC 6750 §2.2-2.3, RFC 9700 §4.3.2).
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.identity import api_key, compact_jws
from gateway.identity.confirmation import DPOP
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.identity.principal import CredentialKind
from gateway.identity.refusal import invalid
from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.identity.issuer import CallerTrust

AUTHORIZATION = "authorization"
X_API_KEY = "x-api-key"
ACCESS_ASSERTION = "cf-access-jwt-assertion"

# RFC 6750 §2.1  b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=" ; one SP before it
_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_ACCESS_TOKEN = CredentialKind.ACCESS_TOKEN  # looked up once: nearly every request brings one
# RFC 9110 §11.1  auth-scheme = token
_SCHEME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")


class CredentialFields(Protocol):
    """The fields of ``wire.headers.RequestHeaders`` that can carry a credential, each known to occur at most once."""

    @property
    def authorization(self) -> bytes | None: ...  # noqa: D102
    @property
    def x_api_key(self) -> bytes | None: ...  # noqa: D102
    @property
    def access_assertion(self) -> bytes | None: ...  # noqa: D102
    @property
    def dpop(self) -> bytes | None: ...  # noqa: D102
    @property
    def credential_repeated(self) -> bool: ...  # noqa: D102


class Credential(NamedTuple):
    """One credential as it came; a tuple, because one is built for every request.

    ``carrier``: the field it came in. ``caller``: the name under ``trust.callers`` where the form tells it.
    ``sha256``: in hex, of an API key or an opaque token; ``None`` for other kinds. ``assertion``: the lock of a plane
    with ``trust.edge``, yet to be verified. ``proof``: what came in the DPoP field, for a token of that scheme.
    """

    kind: CredentialKind
    text: str
    carrier: str
    caller: str | None = None
    sha256: str | None = None
    assertion: str | None = None
    proof: str | None = None

    def __repr__(self) -> str:
        """Name what is no secret."""
        return f"Credential(kind={self.kind.value!r}, carrier={self.carrier!r}, caller={self.caller!r})"


def takes_proofs(callers: Iterable[CallerTrust]) -> bool:
    """Tell whether tokens of the DPoP scheme are taken from some of these callers."""
    return any(isinstance(trust, AccessTokenIssuer) and trust.sender == DPOP for trust in callers)


class CredentialReader:
    """Reads the credential of each request to one plane.

    ``keys``: the caller by the SHA-256 of each key in the policy. ``edge``: the plane has ``trust.edge``, so that the
    Access assertion is a lock besides the caller's own credential.
    """

    def __init__(self, callers: Mapping[str, CallerTrust], keys: Mapping[str, str], *, edge: bool = False) -> None:
        self._keys = keys
        self._carriers = {name: trust.carriers for name, trust in callers.items() if isinstance(trust, ApiKeys)}
        self._key_field = any(X_API_KEY in carriers for carriers in self._carriers.values())
        self._asked = next((name for name, trust in callers.items() if isinstance(trust, IntrospectionIssuer)), None)
        self._assertion_is_caller = any(isinstance(trust, CloudflareAccess) for trust in callers.values())
        self._edge = edge
        self._takes_proofs = takes_proofs(callers.values())

    def read(self, fields: CredentialFields) -> Credential:
        """Give the credential of a request. Raises ``Malformed`` with one of the three credential reasons."""
        credential = self._own(fields)
        if not self._edge:
            return credential
        if not fields.access_assertion:
            raise Malformed(Reason.CREDENTIAL_MISSING, f"{ACCESS_ASSERTION} is missing: it did not come through Access")
        return credential._replace(assertion=_text(fields.access_assertion))

    def _own(self, fields: CredentialFields) -> Credential:
        """Give the caller's own credential, beside which the edge may have its lock."""
        assertion = fields.access_assertion
        key = fields.x_api_key if self._key_field else None
        if fields.credential_repeated or assertion is not None or key is not None:
            self._refuse_second(fields, key, assertion)
            if assertion and self._assertion_is_caller:
                return Credential(CredentialKind.CLOUDFLARE_ACCESS, _text(assertion), ACCESS_ASSERTION)
            if key:
                return self._key(_text(key), X_API_KEY)
        if fields.authorization is None:
            hint = "" if fields.x_api_key is None or key is not None else f"this plane reads no {X_API_KEY} field"
            raise Malformed(Reason.CREDENTIAL_MISSING, hint)
        if self._takes_proofs and fields.authorization[:5].lower() == b"dpop ":
            return self._with_proof(_text(fields.authorization[5:]), fields.dpop)
        return self._bearer(_bearer_text(fields.authorization))

    @staticmethod
    def _with_proof(text: str, proof: bytes | None) -> Credential:
        """Take a token of the DPoP scheme (RFC 9449 §7.1): a signed one, with its proof."""
        if not compact_jws.is_signed(text):
            raise invalid("the DPoP scheme is not followed by a signed token")
        if not proof:
            raise invalid("the token came without a proof")
        return Credential(CredentialKind.ACCESS_TOKEN, text, AUTHORIZATION, proof=_text(proof))

    def _refuse_second(self, fields: CredentialFields, key: bytes | None, assertion: bytes | None) -> None:
        """Refuse a request that could mean two parties: "whichever validates" is how one borrows another's rights."""
        if fields.credential_repeated:
            raise _ambiguous("a credential field occurs twice")
        if assertion is not None and not (self._edge or self._assertion_is_caller):
            raise _ambiguous(f"{ACCESS_ASSERTION} came too: Access is in front of this plane: add trust.edge")
        carriers = {
            AUTHORIZATION: fields.authorization,
            X_API_KEY: key,
            ACCESS_ASSERTION: assertion if self._assertion_is_caller else None,
        }
        sent = [name for name, field in carriers.items() if field is not None]
        if len(sent) > 1:
            raise _ambiguous(f"{' and '.join(sent)} each carry a credential")

    def _bearer(self, text: str) -> Credential:
        """Tell the kind of a bearer credential by its form."""
        if compact_jws.is_signed(text):
            return Credential(_ACCESS_TOKEN, text, AUTHORIZATION)
        if _B64TOKEN.fullmatch(text) is None:
            raise invalid("the credential is not a b64token")
        key = self._key(text, AUTHORIZATION)
        if key.caller is None and self._asked is not None and not text.startswith(api_key.PREFIX):
            return Credential(CredentialKind.INTROSPECTION, text, AUTHORIZATION, self._asked, key.sha256)
        return key

    def _key(self, text: str, carrier: str) -> Credential:
        """Look a key up by its hash; an unknown one costs the same and has no caller."""
        digest = sha256(text.encode()).hexdigest()
        caller = self._keys.get(digest)
        if caller is not None and carrier not in self._carriers[caller]:
            raise invalid(f"keys of this caller do not come in {carrier}")
        return Credential(CredentialKind.API_KEY, text, carrier, caller, digest)


def _bearer_text(field: bytes) -> str:
    """Take the token out of an Authorization field (RFC 9110 §11.6.2); the scheme's name knows no case."""
    if field[:7].lower() == b"bearer ":
        return _text(field[7:])
    scheme = _SCHEME.match(field)
    if scheme is None or scheme[0].lower() != b"bearer" or scheme.end() == len(field):
        # RFC 6750 §3.1: a request without a credential of this scheme is told what to send, and no error.
        raise Malformed(Reason.CREDENTIAL_MISSING, "the authorization field has no bearer token")
    raise invalid("the bearer scheme is not followed by exactly one space")


def _text(value: bytes) -> str:
    try:
        return value.decode("ascii")
    except UnicodeDecodeError:
        raise invalid("the credential holds octets that are not ASCII") from None


def _ambiguous(detail: str) -> Malformed:
    return Malformed(Reason.CREDENTIAL_AMBIGUOUS, detail)
