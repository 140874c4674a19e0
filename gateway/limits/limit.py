"""The numbers of one named set of limits."""

from __future__ import annotations

from dataclasses import dataclass

NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a client may use; ``None`` means that this quantity is not limited.

    Requests in any minute, open requests at one time, prompt and completion tokens in any minute and in a UTC day.
    ``priority``: who goes first where requests wait: ``high``, ``normal`` or ``low``.
    """

    name: str
    requests_per_minute: int
    concurrent_requests: int
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    priority: str = NORMAL
