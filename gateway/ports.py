"""The ports of the enforcement, and the values that cross them.

Leaves: one Protocol for each thing outside that the enforcement needs, implemented in ``adapters`` and by the doubles
of the tests, and the frozen values that go in and out. No behaviour is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from gateway.dialects.meter import Meter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Container, Coroutine, Iterable, Mapping

    from gateway.audit import AuditRecord
    from gateway.dialects.call import Dialect
    from gateway.dialects.openai_models import ServedModel
    from gateway.identity.credential import Credential
    from gateway.identity.dpop import Proofs
    from gateway.identity.principal import Principal
    from gateway.limits.ledger import Ledger
    from gateway.policy.cache_salt import CacheSalts
    from gateway.policy.model import Deadlines
    from gateway.reasons import Malformed, Reason
    from gateway.wire.field_lines import FieldLines


class Inbound(Protocol):
    """Room 1, the door, as the enforcement sees it: one request, and the way back.

    ``keep_alive``: whether the connection goes on behind the answer. ``lines``: what the head of the answer says
    besides, whatever it is.
    """

    method: str
    target: bytes
    http_version: str
    headers: FieldLines
    peer: str | None
    refusal: Malformed | None
    keep_alive: bool
    lines: tuple[bytes, ...]
    bytes_in: int
    bytes_out: int

    @property
    def certificate(self) -> str | None:
        """The SHA-256 thumbprint of the certificate that the client showed on this connection (RFC 8705 §3.1)."""

    def body_at_hand(self, at_most: int) -> bytes | None:
        """Give the body, once, where all of it came with its head or soon behind it; ``None``: ``read_body``."""

    async def read_body(self, at_most: int) -> bytes:
        """Read the body.

        Raises ``Malformed`` (too large, too slow, broken) and ``ConnectionError`` when the caller left.
        """

    def pieces(self, at_most: int) -> AsyncGenerator[bytes, None]:
        """Read the body in pieces, of which nothing is kept. Raises as ``read_body`` does."""

    def answer(self, status: int, lines: Iterable[bytes], body: bytes) -> None:
        """Write a whole answer."""

    @property
    def answered(self) -> bool:
        """Whether an answer is out, at least its head."""


class Spool(Protocol):
    """Where the file of a form waits, outside of memory, until all of the form was judged; nobody else can read it."""

    size: int

    async def write(self, data: bytes) -> None:
        """Add to the file. Raises ``Unavailable(SPOOL_UNAVAILABLE)``."""

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """Read the file from its beginning. Raises ``Unavailable(SPOOL_UNAVAILABLE)``."""

    def close(self) -> None:
        """Forget the file."""


@dataclass(frozen=True, slots=True)
class Upload:
    """The rest of a form whose beginning is ``UpstreamRequest.body``: the file, and what stands behind it."""

    boundary: str
    file: Spool
    tail: bytes


@dataclass(slots=True)
class UpstreamRequest:
    """Room 5's work: what goes to the engine, and what the answer's head says besides the engine's own fields.

    No byte of the caller's target or header fields is in it. ``deadlines`` are resolved: no ``None`` is left.
    ``upload``: set for a form, ``None`` for JSON. ``hides_usage``: the gateway alone asked for the event with the
    engine's count. ``rank``: who goes first where requests wait, the least of them. ``meter`` reads the answer.
    ``model``: the name at the engine. ``mark`` says which requests begin alike (``engine.choice``).
    """

    id: str
    plane: str
    engine: str
    method: str
    path: str
    body: bytes = field(repr=False)
    stream: bool
    dialect: Dialect
    deadlines: Deadlines
    lines: list[bytes]
    upload: Upload | None = None
    model: str = ""
    mark: bytes | None = field(default=None, repr=False)
    hides_usage: bool = False
    rank: int = 1
    meter: Meter = field(init=False)

    def __post_init__(self) -> None:
        """Have a meter ready for the answer."""
        self.meter = Meter(self.dialect, self.hides_usage)


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """An engine's answer that is no success, read to its end or to a bound."""

    status: int
    body: bytes = field(repr=False)
    retry_after: str = ""


class Ending(Enum):
    """How a dispatch ended: passed on whole, answered with an error yet to be worded, failed, or without a caller."""

    DELIVERED = "delivered"
    ANSWERED = "answered"
    FAILED = "failed"
    CLIENT_LEFT = "client-left"


_DELIVERED = Ending.DELIVERED  # looked up once, since it is asked for with each request


class Delivery(NamedTuple):
    """What became of a dispatched request.

    ``first_byte_s``: seconds from its dispatch to the first byte of the body. ``sent``: whether anything of it went to
    an engine.
    """

    ending: Ending
    reason: Reason | None = None
    detail: str = ""
    engine_status: int | None = None
    answer: EngineAnswer | None = None
    first_byte_s: float | None = None
    sent: bool = True

    @property
    def whole(self) -> bool:
        """Whether the caller got all of an answer."""
        return self.ending is _DELIVERED and not self.detail


InboundT = TypeVar("InboundT", bound=Inbound)
"""The door of one composition: what its dispatcher can write to is more than the enforcement needs."""

InboundT_contra = TypeVar("InboundT_contra", bound=Inbound, contravariant=True)


class Dispatcher(Protocol[InboundT_contra]):
    """Room 6: sends a request to its engine and the answer to the caller."""

    def chooses(self, engine: str) -> bool:
        """Tell whether an engine has several replicas, so that the mark of a request matters."""

    def forward(self, request: UpstreamRequest, inbound: InboundT_contra) -> Coroutine[Any, Any, Delivery]:
        """Relay one call. Raises ``Unavailable`` when the engine cannot be reached."""


class Catalogue(Protocol):
    """What the engines serve."""

    async def served(self, engine: str) -> Mapping[str, ServedModel]:
        """Give the models of an engine by the names it serves. Raises ``Unavailable``."""


class Authenticator(Protocol):
    """Turns a credential into a verified principal.

    ``known_fields``: the SHA-256 of each Authorization field that ``recognize`` may know.
    """

    @property
    def known_fields(self) -> Container[bytes]: ...  # noqa: D102

    def recognize(self, field: bytes, now: float) -> Principal | None:
        """Give the principal of a token that was verified before, by the SHA-256 of the field that brings it."""

    def known(self, credential: Credential, now: float) -> Principal | None:
        """Give the principal of a credential that was verified before, or needs nothing from outside."""

    async def identify(self, credential: Credential, now: float) -> Principal:
        """Verify a credential. Raises ``Malformed(CREDENTIAL_INVALID)`` and ``Unavailable(KEYS_UNAVAILABLE)``."""

    async def open_edge(self, assertion: str, now: float) -> None:
        """Verify the lock of the edge, if the plane has one. Raises as ``identify`` does."""


class Journal(Protocol):
    """Where records go: the audit log and the metrics."""

    @property
    def ready(self) -> bool:
        """Whether records are kept at the moment."""

    def note(self, record: AuditRecord) -> None:
        """Keep one record."""


class Clock(Protocol):
    """Time as an argument: ``now`` is Unix time, ``ticks`` never goes back; both in seconds.

    ``today`` is a UTC date (ISO).
    """

    def now(self) -> float: ...  # noqa: D102
    def ticks(self) -> float: ...  # noqa: D102
    def today(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Ports(Generic[InboundT]):
    """What the enforcement of a plane is connected to.

    ``processes``: how many share the plane's callers, and so the bounds on credentials that fail.
    """

    authenticator: Authenticator
    dispatcher: Dispatcher[InboundT]
    catalogue: Catalogue
    ledger: Ledger
    journal: Journal
    clock: Clock
    proofs: Proofs
    salts: CacheSalts
    new_id: Callable[[], str]
    report_bug: Callable[[str, BaseException], None]
    new_spool: Callable[[], Spool]
    processes: int = 1
