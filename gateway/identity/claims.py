"""Claims, read one by one into types (RFC 7519 §4).

Enters: the claims of a token, proved or not. Leaves: texts, moments and sets of names, or
``Malformed(CREDENTIAL_INVALID)``. Nothing is coerced: a number in quotes is a text, and ``true`` is not one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

# OpenID Connect Core §2: a subject has at most 255 characters. Ids end in records and as keys of limits.
LONGEST_NAME = 255
# The end of the year 9999: a larger number is no date, and arithmetic with it is no arithmetic.
_LAST_MOMENT = 253_402_300_799


def name(claims: Mapping[str, Any], claim: str) -> str:
    """Give an id: a text of 1 to 255 printable characters. Printable, because CR and LF forge lines (CWE-117)."""
    value = claims.get(claim)
    if type(value) is not str or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise invalid(f"{claim} is not a text of 1 to {LONGEST_NAME} printable characters")
    return value


def moment(claims: Mapping[str, Any], claim: str) -> float:
    """Give a NumericDate in seconds since 1970 (RFC 7519 §2)."""
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_MOMENT:
        raise invalid(f"{claim} is not a NumericDate")
    return value


def expiry(claims: Mapping[str, Any], now: float, skew_s: float) -> float:
    """Give ``exp``, which must lie ahead, allowing for the difference of clocks (RFC 7519 §4.1.4)."""
    expires = moment(claims, "exp")
    if now >= expires + skew_s:
        raise invalid("exp has passed")
    return expires


def check_begun(claims: Mapping[str, Any], now: float, skew_s: float) -> None:
    """Check that ``iat`` and ``nbf``, where there are any, do not lie in the future (RFC 7519 §4.1.5-4.1.6)."""
    for claim in ("iat", "nbf"):
        if claim in claims and moment(claims, claim) > now + skew_s:
            raise invalid(f"{claim} lies in the future")


def token_id(claims: Mapping[str, Any]) -> str | None:
    """Give the ``jti``, by which a list of revoked tokens may name this one (RFC 7519 §4.1.7)."""
    value = claims.get("jti")
    return value if type(value) is str else None


def names_audience(claims: Mapping[str, Any], audience: str) -> bool:
    """Tell whether ``aud`` is this text or a list of texts with it, character by character (RFC 7519 §4.1.3)."""
    value = claims.get("aud")
    if type(value) is list:
        return all(type(member) is str for member in value) and audience in value
    return type(value) is str and value == audience


def groups(claims: Mapping[str, Any], path: tuple[str, ...] | None) -> frozenset[str]:
    """Give the names at a path of members; without the path, or where it leads nowhere, there are none."""
    value: Any = claims if path else None
    for member in path or ():
        value = value.get(member) if type(value) is dict else None
    if value is None:
        return frozenset()
    return _names(value, "groups")


def scopes(claims: Mapping[str, Any], claim: str | None) -> frozenset[str]:
    """Give the scopes: one text with a space between them (RFC 9068 §2.2.3), or a list of texts (Okta's ``scp``)."""
    value = claims.get(claim, "") if claim else ""
    return _names(value.split(" ") if type(value) is str else value, "scopes") - {""}


def _names(value: object, what: str) -> frozenset[str]:
    if type(value) is not list or not all(type(member) is str for member in value):
        raise invalid(f"the {what} are not a list of texts")
    return frozenset(value)
