"""Grants that were given before, for callers who are recognized by the hash of what they showed.

Enters: what ``decide.admit`` takes, and that hash. Leaves: what ``admit`` gives, or the very grant that it gave before
for the same proof on the same endpoint. Whether the proof still holds was asked before, each time. A grant is kept only
where neither the address nor the day had a part in it; a new policy gets a new memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.identity.principal import CredentialKind
from gateway.policy.decide import admit
from gateway.policy.decision import Grant

if TYPE_CHECKING:
    from gateway.identity.principal import Principal
    from gateway.policy.decision import Deny
    from gateway.policy.model import Endpoint, Plane


class Admissions:
    """The memory of one plane, of at most ``most`` grants: the last one of each caller."""

    def __init__(self, plane: Plane, most: int = 10_000) -> None:
        self._plane = plane
        self._most = most
        self._grants: dict[bytes, Grant] = {}

    def admit(
        self, endpoint: Endpoint, principal: Principal, address: str | None, today: str, known_as: bytes | None
    ) -> Grant | Deny:
        """Let a principal in as ``decide.admit`` does. ``known_as``: the hash, ``None`` for one not recognized."""
        if known_as is None:
            return admit(self._plane, endpoint, principal, address, today)
        found = self._grants.get(known_as)
        if found is not None and found.principal is principal and found.endpoint is endpoint:
            return found
        given = admit(self._plane, endpoint, principal, address, today)
        if isinstance(given, Grant) and not given.client.networks and principal.kind is not CredentialKind.API_KEY:
            if len(self._grants) >= self._most:
                self._grants.clear()
            self._grants[known_as] = given
        return given
