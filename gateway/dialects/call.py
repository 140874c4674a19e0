"""What a body means, once read: the types that every dialect shares.

Leaves: ``Call`` (a body as parsed, not yet judged), ``Usage`` (what the engine counted) and ``Dialect``, the port
that the court, the workshop and the dispatch use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.reasons import Reason


@dataclass(slots=True)
class Call:
    """A parsed body. ``fields`` is the JSON object; it holds prompts, so it stays out of every repr."""

    fields: dict[str, Any] = field(repr=False)


@dataclass(slots=True)
class Usage:
    """Tokens as the engine counted them; ``None`` where it did not say.

    ``estimated``: the engine gave no whole count, so the gateway took what it saw.
    """

    prompt: int | None = None
    completion: int | None = None
    reasoning: int | None = None
    estimated: bool = False

    def after(self, earlier: Usage | None) -> Usage:
        """Give this count with what it does not say taken from an earlier one of the same answer."""
        if earlier is None:
            return self
        return Usage(
            earlier.prompt if self.prompt is None else self.prompt,
            earlier.completion if self.completion is None else self.completion,
            earlier.reasoning if self.reasoning is None else self.reasoning,
        )


class Replacement(Protocol):
    """A change to a body (``policy.decision.Change`` has this shape): set, replace, lower or drop one dotted field."""

    @property
    def action(self) -> str: ...  # noqa: D102
    @property
    def field(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> Any: ...  # noqa: ANN401, D102


class Dialect(Protocol):
    """What one API's bodies mean and how its answers look.

    ``upstream`` is the engine's request line as constants (method, path); ``None`` where the gateway answers by
    itself. ``tells_usage``: the field (dotted) that has to be true in the body of a stream for the engine to tell its
    count; ``None`` where it tells unasked. ``delta``: what stands once in each event that bears a token of the answer,
    and in the first ``lead`` events of a stream, which bear none: so is counted what was seen of a stream that breaks
    off. ``count_from``: where in some whole events a count is looked for, as the beginning of a slice.
    """

    name: str
    upstream: tuple[str, str] | None
    tells_usage: str | None
    delta: bytes
    lead: int
    count_from: int

    def read(self, body: bytes) -> Call:
        """Parse a body. Raises ``Malformed(BODY_MALFORMED)``."""

    def write(self, call: Call, changes: Iterable[Replacement]) -> bytes:
        """Serialize the call with the changes made; total on every call that was permitted."""

    def usage(self, data: bytes) -> Usage | None:
        """Find the engine's count in a piece of an answer (a whole body, or some events); ``None`` without one."""

    def take_usage(self, events: bytes) -> tuple[Usage | None, bytes]:
        """Find the engine's count in some events; give it, and them without the one that holds nothing else."""

    def ends(self, events: bytes) -> bool:
        """Tell whether these are the last events of a stream that was not cut short."""

    def error(self, reason: Reason, message: str, param: str | None, request_id: str, status: int) -> bytes:
        """Give the JSON error body of this API."""

    def error_event(self, reason: Reason, message: str, request_id: str) -> bytes:
        """Give the one event, with its blank line, that ends a stream that failed after its head."""

    def engine_message(self, body: bytes) -> str | None:
        """Take the human-readable message out of an engine's error body; ``None`` when there is none."""
