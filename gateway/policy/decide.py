"""The decisions about a request before its body is read; ``judge`` decides about the body.

Enters: a plane with the target, then with a verified principal; clock and address are arguments. Leaves: an
``Endpoint`` and a ``Grant``, or a ``Deny`` with the first reason in the order that the policy's reference states.
Nothing is awaited, fetched or guessed.
"""

from __future__ import annotations

from hmac import compare_digest
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from gateway.identity.principal import CredentialKind
from gateway.policy.decision import Deny, Grant
from gateway.policy.judge import judge
from gateway.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from ipaddress import IPv4Network, IPv6Network

    from gateway.identity.principal import Principal
    from gateway.policy.model import Client, Endpoint, Plane
    from gateway.wire.target import Target

__all__ = ["admit", "endpoint_for", "judge"]

# The one query that must be there: the level of sleep is never chosen for the caller.
_NEEDS_QUERY = "engine-sleep"
_NO_KEY = b"0" * 64
_API_KEY = CredentialKind.API_KEY  # a look at the class of an enumeration costs ten times as much


def endpoint_for(plane: Plane, method: str, target: Target) -> Endpoint | Deny:
    """Find the endpoint of a request line, by exact path, then method, then query.

    Where web pages may read answers, HEAD is what GET is, without the body (RFC 9110 §9.3.2).
    """
    methods = plane.endpoints.get(target.path)
    if methods is None:
        return Deny(Reason.NO_SUCH_ENDPOINT)
    endpoint = methods.get(method)
    if endpoint is None and method == "HEAD" and plane.cors_origins:
        endpoint = methods.get("GET")
    if endpoint is None:
        return Deny(Reason.METHOD_NOT_ALLOWED, ", ".join(sorted(accepted(plane, methods))))
    if target.query is None:
        if endpoint.dialect == _NEEDS_QUERY:
            return Deny(Reason.QUERY_NOT_ACCEPTED, f"needs {', '.join(sorted(endpoint.query))}")
    elif not _query_accepted(target.query, endpoint.query):
        return Deny(Reason.QUERY_NOT_ACCEPTED)
    return endpoint


def accepted(plane: Plane, methods: Iterable[str]) -> set[str]:
    """Give the methods of a path, with those that pages of other origins may use besides where the plane has such."""
    more = {"OPTIONS", *(("HEAD",) if "GET" in methods else ())} if plane.cors_origins else set()
    return {*methods, *more}


def admit(plane: Plane, endpoint: Endpoint, principal: Principal, address: str | None, today: str) -> Grant | Deny:
    """Let a principal in, as the one client that it is.

    ``address``: where it comes from, ``None`` if that is not known. ``today``: the day in UTC, as ISO text.
    """
    client = _client(plane, principal, today)
    if isinstance(client, Deny):
        return client
    if client.suspended:
        return Deny(Reason.CLIENT_SUSPENDED, record=f"client {client.name}", client=client)
    if client.networks and not _within(address, client.networks):
        return Deny(Reason.ADDRESS_NOT_ACCEPTED, record=f"client {client.name}", client=client)
    if endpoint.name not in client.may:
        return Deny(Reason.ENDPOINT_NOT_GRANTED, record=f"client {client.name}", client=client)
    if not endpoint.needs <= principal.scopes:
        return Deny(
            Reason.SCOPE_MISSING, " ".join(sorted(endpoint.needs)), record=f"client {client.name}", client=client
        )
    return Grant(client, endpoint, principal)


def _query_accepted(query: bytes, accepted: Mapping[str, frozenset[str]]) -> bool:
    """Tell whether each key stands there once, and with a listed value; bytes are compared, nothing is decoded."""
    seen = set()
    for pair in query.split(b"&"):
        key, equals, value = pair.decode("latin-1").partition("=")
        if not equals or key in seen or value not in accepted.get(key, ()):
            return False
        seen.add(key)
    return True


def _client(plane: Plane, principal: Principal, today: str) -> Client | Deny:
    if principal.kind is _API_KEY:
        return _holder(plane, principal, today)
    index = plane.index
    named = index.ids.get((principal.caller, principal.id), ())
    groups = index.groups.get(principal.caller)
    if groups is None:
        return named[0] if len(named) == 1 else _one(plane, [client.name for client in named])
    found = {client.name for client in named}
    for group in groups.keys() & principal.groups:
        found.update(client.name for client in groups[group])
    return _one(plane, found)


def _holder(plane: Plane, principal: Principal, today: str) -> Client | Deny:
    """Find who holds a key. The comparison takes as long for an unknown key as for a known one."""
    held = plane.index.keys.get((principal.caller, principal.id), ())
    digest = principal.id.encode()
    known = False
    for _, key in held:
        known = compare_digest(key.sha256.encode(), digest)
    if not known:
        compare_digest(_NO_KEY, digest)
        return Deny(Reason.CREDENTIAL_INVALID, record="no client has this key")
    last_day = min((key.not_after for _, key in held if key.not_after is not None), default=None)
    if last_day is not None and today > last_day:
        return Deny(Reason.CREDENTIAL_INVALID, record=f"the key's last day was {last_day}")
    return _one(plane, dict.fromkeys(client.name for client, _ in held))


def _one(plane: Plane, names: Iterable[str]) -> Client | Deny:
    found = sorted(names)
    if len(found) == 1:
        return plane.clients[found[0]]
    return Deny(Reason.CLIENT_UNKNOWN, record=f"fits {' and '.join(found)}" if found else "fits no client")


def _within(address: str | None, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Tell whether an address lies in a network; an IPv4 address that is written as IPv6 is the same address."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return any(parsed in network or (mapped is not None and mapped in network) for network in networks)
