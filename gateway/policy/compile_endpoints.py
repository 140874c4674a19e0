"""``endpoints`` and ``models`` compiled: one exact path for each endpoint and alias, and nothing beside them.

Enters: the typed document and the compiled ``parameters``. Leaves: ``Endpoint`` by path and method, ``Model`` by alias,
and complaints where an endpoint says too little, too much, or what another one says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.dialects.registry import FACTS
from gateway.limits.limit import NORMAL
from gateway.policy import compile_narrowing
from gateway.policy.document_endpoints import CONTROL
from gateway.policy.model import Deadlines, Endpoint, Model
from gateway.policy.units import seconds, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.limits.limit import Limit
    from gateway.policy.complaints import Complaints
    from gateway.policy.document import Document
    from gateway.policy.document_endpoints import DeadlineKeys, EndpointKeys, ModelKeys
    from gateway.policy.model import ParameterRules
    from gateway.policy.source import Path

PLACE: Final = "/{model}"
LEVELS: Final = {"1", "2"}
WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_CHANGES_STATE: Final = frozenset({"engine-sleep", "engine-wake"})


def models(
    document: Document, rules: Mapping[str, ParameterRules], sets: Mapping[str, Limit], complaints: Complaints
) -> dict[str, Model]:
    """Resolve the aliases."""
    resolved: dict[str, Model] = {}
    spelled: dict[str, str] = {}
    for alias, keys in (document.models or {}).items():
        path = ("models", alias)
        other = spelled.setdefault(alias.replace("_", "-"), alias)
        if other != alias:
            complaints.add(
                path, f"this alias and `{other}` differ only in - and _, which readers and the settings take for one"
            )
        if keys.thinking_switch is not None and keys.most_tokens is None:
            complaints.add(
                (*path, "thinking_switch"), "a model without most_tokens generates no text, so nothing in it thinks"
            )
        resolved[alias] = Model(
            alias,
            keys.engine,
            keys.served_as,
            keys.card,
            keys.thinking_switch or "enable_thinking",
            keys.most_tokens,
            compile_narrowing.of_model(alias, keys, document, rules, complaints),
            _limit((*path, "limits"), keys, sets, complaints),
        )
    return resolved


def _limit(path: Path, keys: ModelKeys, sets: Mapping[str, Limit], complaints: Complaints) -> Limit | None:
    """Resolve the set of limits of a model; who goes first is a matter of clients."""
    if keys.limits is None or not complaints.knows(path, keys.limits, sets, "set of limits"):
        return None
    limit = sets[keys.limits]
    if limit.priority != NORMAL:
        complaints.add(
            path, f"`limits.{limit.name}` says a priority, which only clients have: give the model its own set"
        )
    return limit


def endpoints(
    document: Document, rules: Mapping[str, ParameterRules], complaints: Complaints
) -> dict[bytes, dict[str, Endpoint]]:
    """Resolve the endpoints, each under its exact path and its method."""
    resolved: dict[bytes, dict[str, Endpoint]] = {}
    acts: dict[tuple[str, str, str | None], str] = {}
    for name, keys in document.endpoints.items():
        path = ("endpoints", name)
        _fits_dialect(path, keys, complaints)
        _placeholder_and_query(path, keys, complaints, aliases=document.models is not None)
        for endpoint in _expanded(name, keys, document, rules.get(name)):
            other = resolved.setdefault(endpoint.path, {}).setdefault(endpoint.method, endpoint)
            if other is not endpoint:
                what = f"{endpoint.method} {endpoint.path.decode()}"
                complaints.add((*path, "allow"), f"{what} is the endpoint `{other.name}` already")
        if keys.dialect in CONTROL:
            method = keys.allow.partition(" ")[0]
            other_name = acts.setdefault((method, keys.dialect, keys.engine), name)
            if other_name != name:
                complaints.add((*path, "dialect"), f"the endpoint `{other_name}` does the same to the same engine")
        if document.metadata is not None and WELL_KNOWN in keys.allow:
            complaints.add((*path, "allow"), "the plane's own metadata answers there; see metadata.resource")
    return resolved


def _fits_dialect(path: Path, keys: EndpointKeys, complaints: Complaints) -> None:
    """Complain about keys that the dialect lacks or does not have."""
    facts = FACTS[keys.dialect]
    method = keys.allow.partition(" ")[0]
    control = keys.dialect in CONTROL
    posts = facts.has_body or keys.dialect in _CHANGES_STATE
    if posts != (method == "POST"):
        complaints.add(
            (*path, "allow"), f"{keys.dialect} is asked by {'POST' if posts else 'GET or HEAD'}, not by {method}"
        )
    if facts.has_body and keys.body_limit is None:
        complaints.add(path, f"`body_limit` is missing: {keys.dialect} has a body, and each body has a largest size")
    if not facts.has_body and keys.body_limit is not None:
        complaints.add((*path, "body_limit"), f"{keys.dialect} has no body, so there is no limit to it")
    if control and keys.engine is None:
        complaints.add(path, f"`engine` is missing: {keys.dialect} acts on one engine")
    if not control and keys.engine is not None:
        complaints.add((*path, "engine"), "the engine of an inference endpoint is that of the model: remove this key")


def _placeholder_and_query(path: Path, keys: EndpointKeys, complaints: Complaints, *, aliases: bool) -> None:
    if (keys.dialect == "openai-model") != keys.allow.endswith(PLACE):
        complaints.add((*path, "allow"), "the dialect openai-model, and no other, ends in /{model}")
    if keys.dialect == "openai-model" and not aliases:
        complaints.add((*path, "allow"), "{model} stands for the aliases of this file, and it has none")
    if keys.dialect == "engine-sleep":
        if keys.query is None:
            complaints.add(path, 'engine-sleep needs `query: {level: ["1", "2"]}`: the level is always said')
        elif set(keys.query) != {"level"} or not LEVELS.issuperset(keys.query["level"]):
            complaints.add(
                (*path, "query"), "engine-sleep takes the key level with the values 1 and 2, and nothing else"
            )
    elif keys.query is not None and not FACTS[keys.dialect].has_body:
        complaints.add((*path, "query"), f"{keys.dialect} takes no query")


def _expanded(name: str, keys: EndpointKeys, document: Document, rules: ParameterRules | None) -> Iterator[Endpoint]:
    """Yield the endpoint, or one for each alias where ``{model}`` stands."""
    method, _, path = keys.allow.partition(" ")
    aliases: list[str | None] = [None]
    if path.endswith(PLACE):
        path = path.removesuffix(PLACE)
        aliases = list(document.models or ())
    for alias in aliases:
        yield Endpoint(
            name=name,
            method=method,
            path=(path if alias is None else f"{path}/{alias}").encode(),
            dialect=keys.dialect,
            needs=frozenset(keys.needs or ()),
            query={key: frozenset(values) for key, values in (keys.query or {}).items()},
            body_limit=size(keys.body_limit) if keys.body_limit else None,
            deadlines=deadlines(keys.deadlines),
            engine=keys.engine,
            model=alias,
            parameters=rules,
        )


def deadlines(keys: DeadlineKeys | None) -> Deadlines:
    """Resolve time limits, in seconds."""
    if keys is None:
        return Deadlines()
    return Deadlines(*(seconds(text) if text else None for text in (keys.first_byte, keys.idle, keys.total)))
