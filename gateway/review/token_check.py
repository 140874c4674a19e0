"""Whether a plane would take a token, as far as can be told without the issuer's keys: ``vllm-gateway token --for``.

Enters: a token, a plane, the time. Leaves: ``TokenCheck``: the sentence that the audit record would have, or the
client that the token's claims lead to. The signature is not verified: this is for whoever sets an issuer up, and admits
nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.identity import access_token, claims
from gateway.identity.issuer import AccessTokenIssuer
from gateway.reasons import Malformed

if TYPE_CHECKING:
    from gateway.policy.model import Plane


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """What was found; ``fits`` if the plane would look for a signature and then for a client."""

    fits: bool
    sentence: str


def check_token(token: str, plane: Plane, now: float) -> TokenCheck:
    """Judge the claims of a token."""
    issuers = {trust.issuer: trust for trust in plane.callers.values() if isinstance(trust, AccessTokenIssuer)}
    try:
        presented = access_token.read(token, issuers, now)
        issuer = presented.issuer
        groups = claims.groups(presented.jws.claims, issuer.groups_claim)
        scopes = claims.scopes(presented.jws.claims, issuer.scopes_claim)
    except Malformed as refusal:
        return TokenCheck(fits=False, sentence=f"The plane {plane.name} would refuse it: {refusal.detail}.")
    index = plane.index
    found = {client.name for client in index.ids.get((issuer.caller, presented.id), ())}
    found |= {client.name for group in groups for client in index.groups.get(issuer.caller, {}).get(group, ())}
    more = f"scopes: {' '.join(sorted(scopes)) or 'none'}; groups: {', '.join(sorted(groups)) or 'none'}"
    whose = f"{issuer.caller}: {presented.id}"
    if len(found) != 1:
        fault = f"fits {' and '.join(sorted(found))}" if found else "fits no client"
        return TokenCheck(fits=False, sentence=f"The plane {plane.name} would refuse it: {{{whose}}} {fault}; {more}.")
    return TokenCheck(fits=True, sentence=f"On the plane {plane.name} it is client {found.pop()} ({whose}); {more}.")
