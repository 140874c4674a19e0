"""What the doctor asks through, and what comes back: ports that ``adapters.inquirer`` implements, and ``Reply``.

A question that is not answered is no error here: that nobody listens is what the doctor wants to know. So a reply
always comes, and ``failure`` says in the words of this list how far the question got.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Failure(StrEnum):
    """Why there is no answer; each text completes "… :"."""

    REFUSED = "connection refused"
    NO_SOCKET = "no such socket"
    NOT_PERMITTED = "permission denied"
    NO_NAME = "the name cannot be resolved"
    NOT_REACHED = "not reached"
    NO_CONNECTION = "no connection in time"
    TLS = "TLS failed"
    SILENT = "connected, and no answer in time"
    BROKE_OFF = "the connection broke off"
    NOT_HTTP = "what answers is no HTTP"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a question brought: status, header fields (names in lower case) and body, or a ``failure``.

    ``detail``: what the failing part itself says, such as a certificate's fault. ``seconds``: how long it took.
    """

    status: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    failure: Failure | None = None
    detail: str = ""
    seconds: float = 0.0

    @property
    def why(self) -> str:
        """Say why there is no answer."""
        return f"{self.failure} ({self.detail})" if self.detail else str(self.failure)


class Ask(Protocol):
    """The way to one origin; a body is JSON, and the whole answer must come within a time in seconds."""

    async def __call__(self, method: str, target: str, *, within_s: float, body: bytes = b"") -> Reply: ...  # noqa: D102  (the class tells it)
