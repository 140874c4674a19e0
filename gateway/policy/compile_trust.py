"""``trust`` compiled: the kinds of callers of a plane, and the lock before them.

Enters: the typed document. Leaves: one issuer for each caller, and complaints where the kinds do not go together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.policy.units import seconds

if TYPE_CHECKING:
    from gateway.identity.issuer import CallerTrust
    from gateway.policy.complaints import Complaints
    from gateway.policy.document_trust import AccessTokenKeys, CallerKeys, TrustKeys

EDGE: Final = "edge"  # the name of the lock among the issuers of the settings (GATEWAY_ISSUERS__EDGE__…)
LARGEST_SKEW_S: Final = 300
_ONE_KIND: Final = "write exactly one of access_token, introspection, cloudflare_access and api_key here"


def callers(trust: TrustKeys, complaints: Complaints) -> dict[str, CallerTrust]:
    """Resolve the callers, and complain about those that could not be told apart."""
    resolved = {}
    told_apart: dict[tuple[object, ...], str] = {}
    for name, keys in trust.callers.items():
        path = ("trust", "callers", name)
        if name == EDGE:
            complaints.add(path, "no caller may be called edge: in the settings that is the name of the edge lock")
        caller = _caller(name, keys, complaints)
        if caller is None:
            continue
        resolved[name] = caller
        other = told_apart.setdefault(_mark(caller), name)
        if other != name:
            complaints.add(path, _not_told_apart(caller, other))
        if isinstance(caller, CloudflareAccess) and trust.edge is not None:
            complaints.add(
                path,
                "behind Access the assertion is the lock or the caller, not both: remove trust.edge or this caller",
            )
    return resolved


def edge(trust: TrustKeys) -> CloudflareAccess | None:
    """Resolve the lock before all callers, if the plane has one."""
    if trust.edge is None:
        return None
    application = trust.edge.cloudflare_access
    return CloudflareAccess(EDGE, application.team, application.audience)


def _caller(name: str, keys: CallerKeys, complaints: Complaints) -> CallerTrust | None:
    if len(keys.model_fields_set) != 1:
        complaints.add(("trust", "callers", name), _ONE_KIND)
        return None
    if keys.access_token is not None:
        return _access_token(name, keys.access_token, complaints)
    if (asked := keys.introspection) is not None:
        return IntrospectionIssuer(name, asked.issuer, asked.audience, _claim_path(asked.groups_claim))
    if (access := keys.cloudflare_access) is not None:
        return CloudflareAccess(name, access.team, access.audience, _claim_path(access.groups_claim))
    carriers = keys.api_key.carriers if keys.api_key else None
    return ApiKeys(name, frozenset(carriers)) if carriers else ApiKeys(name)


def _access_token(name: str, keys: AccessTokenKeys, complaints: Complaints) -> AccessTokenIssuer:
    skew = seconds(keys.clock_skew)
    if skew > LARGEST_SKEW_S:
        complaints.add(("trust", "callers", name, "access_token", "clock_skew"), "a clock skew is at most 5m")
    return AccessTokenIssuer(
        caller=name,
        issuer=keys.issuer,
        audience=keys.audience,
        algorithms=frozenset(keys.algorithms),
        token_type=keys.token_type,
        clock_skew_s=skew,
        client_claim=keys.client_claim,
        longest_lifetime_s=seconds(keys.longest_lifetime),
        groups_claim=_claim_path(keys.groups_claim),
        scopes_claim=keys.scopes_claim or "scope",
        sender=keys.sender,
    )


def _claim_path(dotted: str | None) -> tuple[str, ...] | None:
    return tuple(dotted.split(".")) if dotted else None


def _mark(caller: CallerTrust) -> tuple[object, ...]:
    """Give what tells a caller apart from others of its kind: its issuer, its application, or being the only one."""
    match caller:
        case AccessTokenIssuer():
            return caller.kind, caller.issuer
        case CloudflareAccess():
            return caller.kind, caller.team, caller.audience
        case IntrospectionIssuer():
            return (caller.kind,)
        case _:
            return caller.kind, caller.caller


def _not_told_apart(caller: CallerTrust, other: str) -> str:
    match caller:
        case IntrospectionIssuer():
            return f"an opaque token names no issuer, so a plane has one introspection caller at most: `{other}`"
        case CloudflareAccess():
            return f"this is the Access application of `{other}` again: the two cannot be told apart"
        case _:
            return f"this is the issuer of `{other}` again: token callers are told apart by their issuer alone"
