"""A compiled policy: resolved, frozen, indexed for the two look-ups of a request.

Enters: what ``policy.compile`` resolved from the file. Leaves: ``Plane``. Every name is resolved here: an endpoint
holds its rules, a client its limits, a plane one exact path per alias. Durations are in seconds, sizes in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.dialects.registry import FACTS
from gateway.policy.clients import ClientIndex
from gateway.policy.rules import Rules, rules_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Network, IPv6Network

    from gateway.identity.issuer import CallerTrust, CloudflareAccess
    from gateway.limits.limit import Limit


@dataclass(frozen=True, slots=True)
class Model:
    """An alias: the engine that serves it and the name there. Without ``most_tokens`` it generates no text.

    ``caps``: hold besides those of the endpoint. ``limit``: what all clients together may use of it.
    """

    alias: str
    engine: str
    served_as: str
    card: str | None = None
    thinking_switch: str = "enable_thinking"
    most_tokens: int | None = None
    caps: tuple[tuple[str, Cap], ...] = ()
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that a caller may ask for in one field: a number (``at_most``), or sizes, at least one of them."""

    at_most: int | float | None = None
    at_most_items: int | None = None
    at_most_characters: int | None = None
    at_most_media: int | None = None
    lower: bool = False


@dataclass(frozen=True, slots=True)
class ThinkingRule:
    """Who decides whether the model thinks.

    ``default_enabled``: what is sent without a wish. ``everyone``: anybody may enable; otherwise only ``clients`` and
    members of ``groups`` (both empty: nobody). ``disable_otherwise``: a wish that is not permitted is set to off
    instead of refused.
    """

    default_enabled: bool = False
    everyone: bool = True
    clients: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    disable_otherwise: bool = False

    @property
    def forbidden(self) -> bool:
        """Whether the endpoint forbids thinking to all, which also closes the side doors."""
        return not self.everyone and not self.clients and not self.groups


@dataclass(frozen=True, slots=True)
class ParameterRules:
    """The body fields of one endpoint. ``accept`` holds dotted names with ``standard`` already written out."""

    accept: frozenset[str]
    drop_unlisted: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    force: Mapping[str, Any] = field(default_factory=dict)
    caps: Mapping[str, Cap] = field(default_factory=dict)
    thinking: ThinkingRule = field(default_factory=ThinkingRule)
    refuse_special_tokens: bool = False


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What one client may less than an endpoint grants.

    ``without``: accepted fields that are unlisted for it. ``caps``: hold besides the endpoint's. ``thinking``: the rule
    in place of the endpoint's, one that forbids; ``None`` leaves the endpoint's.
    """

    without: frozenset[str] = frozenset()
    caps: tuple[tuple[str, Cap], ...] = ()
    thinking: ThinkingRule | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits of an endpoint in place of the settings; ``None`` leaves the setting."""

    first_byte: float | None = None
    idle: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method and one exact path.

    ``model`` is the alias of a path that was expanded from ``{model}``. ``parameters`` and ``body_limit`` are set where
    the dialect has a body. ``engine`` is set for the engine control dialects alone.
    """

    name: str
    method: str
    path: bytes
    dialect: str
    needs: frozenset[str] = frozenset()
    query: Mapping[str, frozenset[str]] = field(default_factory=dict)
    body_limit: int | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    engine: str | None = None
    model: str | None = None
    parameters: ParameterRules | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A static key: SHA-256 in lower-case hex, and the last day (UTC, ISO text) on which it is good."""

    sha256: str
    not_after: str | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """Whose request this is, and what it may do. Exactly one of ``id``, ``group``, ``keys`` is set.

    ``narrow``: what it may less than others, by endpoint.
    """

    name: str
    caller: str
    limit: Limit
    may: frozenset[str]
    id: str | None = None
    group: str | None = None
    keys: tuple[Key, ...] = ()
    each_subject: bool = False
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    suspended: bool = False
    models: tuple[str, ...] = ()
    narrow: Mapping[str, Narrowing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plane:
    """One policy file, compiled.

    ``endpoints`` is keyed by exact path and then by method. ``not_enforced`` names what the file states and this
    version of the gateway does not yet enforce, as dotted keys: ``serve`` warns of them and ``/readyz`` lists them.
    ``digest`` is the SHA-256 of the file in hex.
    """

    name: str
    listener: str
    summary: str
    public: bool
    callers: Mapping[str, CallerTrust]
    endpoints: Mapping[bytes, Mapping[str, Endpoint]]
    models: Mapping[str, Model]
    limits: Mapping[str, Limit]
    clients: Mapping[str, Client]
    edge: CloudflareAccess | None = None
    media_hosts: frozenset[str] = frozenset()
    cors_origins: frozenset[str] = frozenset()
    resource: str | None = None
    not_enforced: tuple[str, ...] = ()
    digest: str = ""
    source: str = ""
    index: ClientIndex = field(init=False, repr=False, compare=False)
    rules: Mapping[str, Rules] = field(init=False, repr=False, compare=False)
    narrowed: Mapping[tuple[str, str], Rules] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the clients, and join the rules of each endpoint with its dialect; without rules none is accepted."""
        bodied = {
            endpoint.name: (endpoint.parameters or ParameterRules(frozenset()), FACTS[endpoint.dialect])
            for methods in self.endpoints.values()
            for endpoint in methods.values()
            if FACTS[endpoint.dialect].has_body
        }
        rules = {name: rules_for(*known, self.media_hosts) for name, known in bodied.items()}
        narrowed = {
            (client.name, name): rules_for(*bodied[name], self.media_hosts, narrowing)
            for client in self.clients.values()
            for name, narrowing in client.narrow.items()
        }
        object.__setattr__(self, "index", ClientIndex.of(self.clients.values()))
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "narrowed", narrowed)

    def rules_of(self, client: Client, endpoint: Endpoint) -> Rules:
        """Give the rules of an endpoint with a body, as they are for a client."""
        narrowed = self.narrowed.get((client.name, endpoint.name)) if client.narrow else None
        return self.rules[endpoint.name] if narrowed is None else narrowed
