"""``limits`` and ``clients`` compiled: whose request it is, and that everything it may do can be done.

Enters: the typed document and what was compiled before. Leaves: ``Limit`` and ``Client`` by name, and complaints where
a proof does not fit its caller, two clients are one, or a client may use what it cannot.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final

from gateway.dialects.registry import FACTS
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, IntrospectionIssuer
from gateway.limits.limit import NORMAL, Limit
from gateway.policy import compile_narrowing
from gateway.policy.days import is_day
from gateway.policy.document_clients import GroupKeys
from gateway.policy.model import Client, Key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Network, IPv6Network

    from gateway.identity.issuer import CallerTrust
    from gateway.policy.complaints import Complaints
    from gateway.policy.document import Document
    from gateway.policy.document_clients import ClientKeys, KeyKeys
    from gateway.policy.model import Model, ParameterRules
    from gateway.policy.source import Path

    Proofs = dict[tuple[str, ...], str]

NO_GROUPS: Final = "this caller has no `groups_claim`, so no rule may name a group of it"


def limits(document: Document, complaints: Complaints) -> dict[str, Limit]:
    """Resolve the sets of limits, and complain about limited tokens that nothing counts."""
    resolved = {}
    for name, keys in document.limits.items():
        resolved[name] = Limit(
            name,
            keys.requests_per_minute,
            keys.concurrent_requests,
            keys.tokens_per_minute,
            keys.tokens_per_day,
            keys.priority or NORMAL,
        )
        holders = [client for client in document.clients.values() if client.limits == name]
        shared = any(model.limits == name for model in (document.models or {}).values())
        mine = {endpoint for client in holders for endpoint in client.may}
        asked = mine if holders and not shared else set(document.endpoints)
        counted = any(
            FACTS[document.endpoints[endpoint].dialect].counts_tokens for endpoint in asked & document.endpoints.keys()
        )
        for key in ("tokens_per_minute", "tokens_per_day"):
            if getattr(keys, key) is not None and not counted:
                complaints.add(
                    ("limits", name, key),
                    "no endpoint of the clients with these limits counts tokens: remove this line",
                )
    return resolved


def clients(
    document: Document,
    callers: Mapping[str, CallerTrust],
    models: Mapping[str, Model],
    sets: Mapping[str, Limit],
    rules: Mapping[str, ParameterRules],
    complaints: Complaints,
) -> dict[str, Client]:
    """Resolve the clients."""
    resolved = {}
    proofs: Proofs = {}
    for name, keys in document.clients.items():
        path = ("clients", name)
        limits_known = complaints.knows((*path, "limits"), keys.limits, sets, "set of limits")
        may = [
            endpoint
            for index, endpoint in enumerate(keys.may)
            if complaints.knows((*path, "may", index), endpoint, document.endpoints, "endpoint")
        ]
        aliases = tuple(
            alias
            for index, alias in enumerate(keys.models or ())
            if complaints.knows((*path, "models", index), alias, models, "model")
        )
        _models_fit(path, keys, document, [models[alias] for alias in aliases], complaints)
        ((caller, _),) = keys.is_.items()
        if not complaints.knows((*path, "is", caller), caller, document.trust.callers, "caller"):
            continue
        trust = callers.get(caller)
        if trust is None or not limits_known:
            continue
        _scopes_fit(path, keys, document, trust, complaints)
        resolved[name] = Client(
            name=name,
            caller=caller,
            limit=sets[keys.limits],
            may=frozenset(may),
            each_subject=keys.each is not None,
            networks=_networks((*path, "from"), keys.from_ or (), complaints),
            suspended=keys.suspended is not None,
            models=aliases,
            narrow=compile_narrowing.of_client(name, keys, document, rules, complaints),
            **_proof(path, keys, trust, proofs, complaints),
        )
    return resolved


def _proof(path: Path, keys: ClientKeys, trust: CallerTrust, proofs: Proofs, complaints: Complaints) -> dict[str, Any]:
    """Resolve what makes a request this client's; complain about one that another client has, or that does not fit."""
    proof = keys.is_[trust.caller]
    here = (*path, "is", trust.caller)
    if isinstance(proof, tuple) != isinstance(trust, ApiKeys):
        complaints.add(here, _misfit(trust))
        return {}
    if isinstance(proof, tuple):
        if keys.each is not None:
            complaints.add((*path, "each"), "a key names no person, so limits count for the client: remove this line")
        return {"keys": _keys(here, path, proof, proofs, complaints)}
    if isinstance(proof, GroupKeys):
        if trust_groups(trust) is None:
            complaints.add((*here, "group"), NO_GROUPS)
        _claim(("group", trust.caller, proof.group), here, path, proofs, complaints)
        return {"group": proof.group}
    _claim(("id", trust.caller, proof), here, path, proofs, complaints)
    return {"id": proof}


def _misfit(trust: CallerTrust) -> str:
    if isinstance(trust, ApiKeys):
        return f"`{trust.caller}` takes keys: write a list of keys here, each with its sha256"
    return f"`{trust.caller}` takes no keys: write the id, or {{group: …}}"


def _keys(here: Path, path: Path, keys: tuple[KeyKeys, ...], proofs: Proofs, complaints: Complaints) -> tuple[Key, ...]:
    for index, key in enumerate(keys):
        _claim(("key", key.sha256), (*here, index), path, proofs, complaints)
        if key.not_after is not None and not is_day(key.not_after):
            complaints.add((*here, index, "not_after"), "the calendar has no such day")
    return tuple(Key(key.sha256, key.not_after) for key in keys)


def _claim(proof: tuple[str, ...], here: Path, path: Path, proofs: Proofs, complaints: Complaints) -> None:
    name = str(path[-1])
    if proof in proofs:
        whose = "this client" if proofs[proof] == name else f"the client `{proofs[proof]}`"
        complaints.add(here, f"{whose} is this already: a request must fit exactly one client")
    proofs.setdefault(proof, name)


def trust_groups(trust: CallerTrust) -> tuple[str, ...] | None:
    """Give the claim with the groups of a caller; ``None`` where it names none."""
    return None if isinstance(trust, ApiKeys) else trust.groups_claim


def bears_scopes(trust: CallerTrust) -> bool:
    """Tell whether this kind of credential has scopes at all: keys and Access identities have none."""
    return isinstance(trust, AccessTokenIssuer | IntrospectionIssuer)


def _scopes_fit(path: Path, keys: ClientKeys, document: Document, trust: CallerTrust, complaints: Complaints) -> None:
    if bears_scopes(trust):
        return
    for index, name in enumerate(keys.may):
        if name in document.endpoints and document.endpoints[name].needs is not None:
            complaints.add(
                (*path, "may", index),
                f"`{name}` needs a scope, and credentials of `{trust.caller}` bear none: the client cannot use it",
            )


def _models_fit(path: Path, keys: ClientKeys, document: Document, models: list[Model], complaints: Complaints) -> None:
    for index, name in enumerate(keys.may):
        facts = FACTS[document.endpoints[name].dialect] if name in document.endpoints else None
        if facts is None or not facts.uses_model:
            continue
        if not any((model.most_tokens is not None) == facts.generates for model in models):
            kind = (
                "generates text (it has most_tokens)"
                if facts.generates
                else "generates no text (it has no most_tokens)"
            )
            complaints.add((*path, "may", index), f"this client has no model for `{name}`: it needs one that {kind}")


def _networks(path: Path, texts: tuple[str, ...], complaints: Complaints) -> tuple[IPv4Network | IPv6Network, ...]:
    networks: list[IPv4Network | IPv6Network] = []
    for index, text in enumerate(texts):
        try:
            network = ip_network(text, strict=False)
            address = ip_address(text.partition("/")[0])
        except ValueError:
            complaints.add((*path, index), "this is no address of IPv4 or IPv6")
            continue
        if address != network.network_address:
            complaints.add((*path, index), f"the network that this address lies in is written {network}")
        wider = next(
            (other for other in networks if other.version == network.version and _covers(other, network)), None
        )
        if wider is not None:
            complaints.add((*path, index), f"this and {wider} overlap: one of them says nothing")
        networks.append(network)
    return tuple(networks)


def _covers(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    return one.network_address in other or other.network_address in one


def thinkers(
    document: Document, resolved: Mapping[str, Client], callers: Mapping[str, CallerTrust], complaints: Complaints
) -> None:
    """Complain about thinking that is permitted to somebody who cannot ask for it."""
    for name, keys in (document.parameters or {}).items():
        permitted = keys.thinking.may_enable if keys.thinking is not None else ()
        holders = [client for client in resolved.values() if name in client.may]
        grouped = any(trust_groups(callers[client.caller]) is not None for client in holders)
        for index, text in enumerate(permitted if isinstance(permitted, tuple) else ()):
            path = ("parameters", name, "thinking", "may_enable", index)
            kind, _, who = text.partition(":")
            if kind == "group":
                if not grouped:
                    complaints.add(path, f"no caller of a client that may use `{name}` has a `groups_claim`")
            elif complaints.knows(path, who, document.clients, "client") and name not in document.clients[who].may:
                complaints.add(path, f"the client `{who}` may not use `{name}`")
