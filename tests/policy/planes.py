"""Planes for tests of the court, put together by hand: what the examples say, without the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.registry import DIALECTS, FACTS
from gateway.identity.principal import CredentialKind, Principal
from gateway.limits.limit import Limit
from gateway.policy.decision import Deny, Grant
from gateway.policy.judge import judge
from gateway.policy.model import Cap, Client, Endpoint, Key, Model, ParameterRules, Plane, ThinkingRule
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.policy.decision import Permit

LIMIT = Limit("standard", 60, 8)
OLD_KEY = "7a" * 32
NEW_KEY = "c3" * 32

MODELS = {
    "local": Model("local", "main", "local", most_tokens=4096),
    "reasoner": Model("reasoner", "reasoner", "deepseek", thinking_switch="thinking", most_tokens=16384),
    "twice": Model("twice", "main", "twice", thinking_switch="both", most_tokens=100),
    "effort": Model("effort", "main", "effort", thinking_switch="reasoning_effort", most_tokens=100),
    "plain": Model("plain", "main", "plain", thinking_switch="none", most_tokens=100),
    "embed": Model("embed", "embedder", "bge-m3"),
}
PARTNER = ParameterRules(
    accept=FACTS["openai-chat"].standard | {"top_k"},
    caps={
        "messages": Cap(at_most_items=1024),
        "tools": Cap(at_most_items=128),
        "n": Cap(at_most=1),
        "top_logprobs": Cap(at_most=5, lower=True),
    },
    thinking=ThinkingRule(everyone=False, clients=frozenset({"batch"}), groups=frozenset({"reasoning"})),
    refuse_special_tokens=True,
)
INTERNAL = ParameterRules(
    accept=FACTS["openai-chat"].standard | {"top_k", "min_p"},
    drop_unlisted=True,
    defaults={"temperature": 0.2},
    force={"parallel_tool_calls": False},
    caps={"n": Cap(at_most=1, lower=True)},
    thinking=ThinkingRule(everyone=False, groups=frozenset({"reasoning"}), disable_otherwise=True),
)
EMBEDDINGS = ParameterRules(
    accept=frozenset({"model", "input", "encoding_format", "dimensions", "user"}),
    caps={"input": Cap(at_most_items=2048)},
)


def client(name: str, **changes: Any) -> Client:  # noqa: ANN401  (whichever fields a test is about)
    """Give a client of the caller ``corp`` whose id is its name."""
    known = {
        "caller": "corp",
        "id": name,
        "limit": LIMIT,
        "may": frozenset({"chat", "embeddings", "models", "model"}),
        "models": tuple(MODELS),
    }
    return Client(name=name, **{**known, **changes})


def plane(
    chat: ParameterRules | None = PARTNER,
    *,
    embeddings: ParameterRules = EMBEDDINGS,
    clients: Iterable[Client] = (),
    media_hosts: frozenset[str] = frozenset(),
    endpoints: Iterable[Endpoint] = (),
) -> Plane:
    """Give a plane with chat, embeddings and models."""
    known = [
        Endpoint("chat", "POST", b"/v1/chat/completions", "openai-chat", body_limit=1 << 21, parameters=chat),
        Endpoint("embeddings", "POST", b"/v1/embeddings", "openai-embeddings", parameters=embeddings),
        Endpoint("models", "GET", b"/v1/models", "openai-models"),
        Endpoint("model", "GET", b"/v1/models/local", "openai-model", model="local"),
        *endpoints,
    ]
    paths: dict[bytes, dict[str, Endpoint]] = {}
    for endpoint in known:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    named = list(clients) or [
        client("acme"),
        client("staff", models=("local", "embed")),
        client("batch", caller="keys", id=None, keys=(Key(OLD_KEY, "2027-01-31"), Key(NEW_KEY))),
    ]
    return Plane(
        name="partner",
        listener="public",
        summary="",
        public=True,
        callers={},
        endpoints=paths,
        models=MODELS,
        limits={LIMIT.name: LIMIT},
        clients={one.name: one for one in named},
        media_hosts=media_hosts,
    )


def principal(id_: str = "acme", *, groups: Iterable[str] = (), scopes: Iterable[str] = ()) -> Principal:
    """Give a principal with an access token of ``corp``."""
    return Principal("corp", CredentialKind.ACCESS_TOKEN, id_, groups=frozenset(groups), scopes=frozenset(scopes))


def ask(
    body: Mapping[str, Any] | bytes,
    rules: Plane,
    *,
    who: str = "acme",
    groups: Iterable[str] = (),
    endpoint: str = "chat",
) -> tuple[Permit | Deny, dict[str, Any]]:
    """Read, judge and write a body; give the verdict and what the engine would parse (nothing after a ``Deny``)."""
    found = next(one for methods in rules.endpoints.values() for one in methods.values() if one.name == endpoint)
    dialect = DIALECTS[found.dialect]
    call = dialect.read(body if isinstance(body, bytes) else strict_json.dumps(dict(body)))
    verdict = judge(rules, Grant(rules.clients[who], found, principal(who, groups=groups)), call)
    if isinstance(verdict, Deny):
        return verdict, {}
    return verdict, strict_json.loads(dialect.write(call, verdict.changes))
