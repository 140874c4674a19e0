"""What the doctor is led through: the policies, and a way to each thing that the settings name.

Enters: what ``gateway.doctor`` makes of the settings. Leaves: values that hold ports; no secret is among them, since
each port keeps its own. ``variable`` is the setting by which an operator knows a thing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from gateway.identity.key_set import KeySet
    from gateway.inquiry import Ask, Reply
    from gateway.policy.model import Deadlines, Plane


@dataclass(frozen=True, slots=True)
class ReplicaAt:
    """One replica of an engine. ``ask`` shows our key, ``ask_keyless`` none.

    ``elsewhere``: ways to the same port on addresses of this host that others may reach; only for one on loopback.
    """

    name: str
    loopback: bool
    ask: Ask
    ask_keyless: Ask
    elsewhere: Mapping[str, Ask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineAt:
    """One engine of the settings."""

    variable: str
    has_key: bool
    replicas: Sequence[ReplicaAt]


@dataclass(frozen=True, slots=True)
class ListenerAt:
    """A listener of the gateway's. ``closed``: why it cannot be asked behind its handshake."""

    address: str
    variable: str
    ask: Ask
    closed: str = ""


class Issuer(Protocol):
    """The way to the issuer of one caller, by which the gateway itself goes."""

    async def key_set(self) -> KeySet:
        """Fetch the keys. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""

    async def introspect(self) -> bytes:
        """Ask about a token that does not exist. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""

    async def look(self) -> Reply:
        """Ask for any document of its, for the time that its answer bears."""


@dataclass(frozen=True, slots=True)
class IssuerAt:
    """The issuer behind a caller."""

    variable: str
    ask: Issuer


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever asks one real thing through the gateway: at which plane. The token is the port's."""

    plane: str
    ask: Ask


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything that there is to look at.

    ``planes`` are those with a listener. ``gpus`` gives the output of ``nvidia-smi``, its complaint, or ``None`` where
    there is none. ``ledger`` gives the reason why it does not answer, or nothing. ``within_s``: how long a model may
    take to answer. ``idle``: settings of issuers that no caller of a plane has.
    """

    planes: Sequence[Plane]
    closed: Sequence[Plane]
    engines: Mapping[str, EngineAt]
    issuers: Mapping[str, IssuerAt]
    listeners: Mapping[str, ListenerAt]
    deadlines: Deadlines
    keep_alive_s: float
    now: Callable[[], float]
    gpus: Callable[[], Awaitable[tuple[bool, str] | None]]
    ops: ListenerAt | None = None
    ledger: Callable[[], Awaitable[str]] | None = None
    public_url: str = ""
    public: Ask | None = None
    visitor: Visitor | None = None
    look_s: float = 5.0
    within_s: float = 60.0
    idle: Sequence[str] = ()
