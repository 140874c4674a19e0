"""A signed token in compact form, taken apart and not yet believed (RFC 7515 §7.1).

Enters: the text of a token. Leaves: ``CompactJws``, whose existence proves its form: three parts in the one canonical
spelling, a header of known members only, claims that are one unambiguous JSON object. It knows no key, no issuer and
no claim. JWE, the JSON serialisations, unencoded payloads and nesting do not exist here (RFC 8725 §3.3, RFC 7797 §7).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jiter

from gateway.identity import base64url
from gateway.identity.refusal import invalid
from gateway.reasons import Malformed
from gateway.wire import strict_json

# Sizes are judged before anything is decoded (RFC 8725 §3.4); a field of HTTP may not be longer here anyway.
MOST_CHARACTERS = 16 * 1024
LONGEST_KEY_ID = 256

# RFC 7515 §4.1. The thumbprints x5t name a certificate that nobody looks up. A key or an address that the token brings
# itself (jwk, jku, x5c, x5u), crit in any form, b64, zip, cty and all that is unknown are refused.
_HEADER_MEMBERS = frozenset({"alg", "kid", "typ", "x5t", "x5t#S256"})


class JoseHeader(NamedTuple):
    """The members of the header that decide something."""

    algorithm: str
    key_id: str | None
    media_type: str | None


class CompactJws(NamedTuple):
    """The pieces of one token, of which nothing is proved; a tuple, because one is built for every forged token."""

    header: JoseHeader
    claims: dict[str, Any]
    signing_input: bytes
    signature: bytes

    def __repr__(self) -> str:
        """Name the type alone: the rest is a credential."""
        return "CompactJws(…)"


def parse(token: str) -> CompactJws:
    """Take a token apart. Raises ``Malformed(CREDENTIAL_INVALID)``."""
    members, told, signing_input, signature = take_apart(token)
    return CompactJws(_header(members), told, signing_input, signature)


def take_apart(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    """Give header, claims, signing input and signature of any token, its header not judged.

    Raises ``Malformed(CREDENTIAL_INVALID)``.
    """
    if len(token) > MOST_CHARACTERS:
        raise invalid(f"the token is longer than {MOST_CHARACTERS} characters")
    if not token.isascii():
        raise invalid("the token holds characters that are not ASCII")
    parts = token.encode("ascii").split(b".")
    if len(parts) != 3:  # noqa: PLR2004  (header, payload, signature)
        raise invalid("the token has not three parts")
    header, payload, signature = parts
    return (
        _json(header, "header"),
        _json(payload, "payload"),
        header + b"." + payload,
        _decode(signature, "signature"),
    )


def is_signed(token: str) -> bool:
    """Tell whether a credential has the form of a signed token: three parts, the first of them JSON with ``alg``.

    This is about form alone, and lenient: what looks like a signed token must be a good one, and is never offered to
    introspection instead (RFC 8725 §3.3).
    """
    first = token.find(".")
    second = token.find(".", first + 1)
    return first != -1 != second and token.find(".", second + 1) == -1 and _names_algorithm(token[:first])


@lru_cache(maxsize=64)
def _names_algorithm(first: str) -> bool:
    """Tell whether a first part is JSON with ``alg``; all tokens that one key signs share theirs."""
    try:
        value = jiter.from_json(base64url.decode(first.encode("ascii")), partial_mode=False)
    except ValueError:
        return False
    return isinstance(value, dict) and "alg" in value


def _decode(part: bytes, what: str) -> bytes:
    try:
        return base64url.decode(part)
    except ValueError:
        raise invalid(f"the {what} is not canonical base64url") from None


def _json(part: bytes, what: str) -> dict[str, Any]:
    """Decode one JSON object with unique names and finite numbers, in UTF-8 without a byte order mark."""
    octets = _decode(part, what)
    try:
        return strict_json.loads(octets)
    except Malformed:
        raise invalid(f"the {what} is not one strict JSON object") from None


def _header(members: dict[str, Any]) -> JoseHeader:
    """Check the header's members and types (RFC 7515 §4)."""
    if not _HEADER_MEMBERS.issuperset(members):
        raise invalid("the header has a member other than alg, kid, typ and x5t")
    if not all(type(value) is str for value in members.values()):
        raise invalid("a member of the header is not a string")
    if "alg" not in members:
        raise invalid("the header has no alg")
    key_id = members.get("kid")
    if key_id is not None and not 0 < len(key_id) <= LONGEST_KEY_ID:
        raise invalid(f"the kid has not 1 to {LONGEST_KEY_ID} characters")
    return JoseHeader(members["alg"], key_id, members.get("typ"))
