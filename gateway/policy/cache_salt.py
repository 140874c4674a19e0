"""The salt that divides an engine's prefix cache among clients, so that no delay tells one what another asked.

Enters: a secret, then the names of a plane and a client and the day; and a permit. Leaves: a text that only the secret
leads to, and the permit with one more change. vLLM mixes ``cache_salt`` into the hash of the first block of a prompt
(0.9 and later), so a prompt is found again by the same client alone. The secret has no ``repr``.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from gateway.dialects.fields import Treatment
from gateway.policy.decision import Change, Permit

if TYPE_CHECKING:
    from gateway.dialects.registry import Facts

FIELD: Final = "cache_salt"
SHORTEST_SECRET: Final = 32
"""Bytes: as long as the digest, so that the secret is not what is guessed."""

_FORCE: Final = Treatment.FORCE  # a look at the class of an enumeration costs ten times as much
_PURPOSE: Final = "vllm-gateway cache_salt"


class CacheSalts:
    """One secret's salts. ``secret`` has at least ``SHORTEST_SECRET`` bytes."""

    __slots__ = ("_day", "_known", "_secret")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._day = ""
        self._known: dict[tuple[str, str], str] = {}  # of one day, so no more than there are clients

    def salt(self, plane: str, client: str, day: str) -> str:
        """Give a client's salt of a day (UTC, ISO text): 43 characters of base64url (RFC 4648 section 5, no padding).

        HMAC-SHA256 (RFC 2104) over names that hold no NUL, so that no two clients can share what is hashed. Two planes
        may both have a client of one name, and are different parties.
        """
        if day != self._day:
            self._day, self._known = day, {}
        place = (plane, client)
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = self._made(plane, client, day)
        return known

    def _made(self, plane: str, client: str, day: str) -> str:
        message = f"{_PURPOSE}\0{plane}\0{client}\0{day}".encode()
        return urlsafe_b64encode(hmac.digest(self._secret, message, "sha256")).rstrip(b"=").decode()


def is_salted(facts: Facts) -> bool:
    """Tell whether the engine takes a salt with the bodies of a dialect."""
    field = facts.fields.get(FIELD)
    return field is not None and field.treatment is _FORCE


def isolated(permit: Permit, facts: Facts, salt: str) -> Permit:
    """Set the salt in what was permitted, whatever the caller sent; a dialect without a salt is left as it is."""
    if not is_salted(facts):
        return permit
    return Permit((*permit.changes, Change("set", FIELD, salt)), permit.model, permit.stream, permit.most_tokens)
