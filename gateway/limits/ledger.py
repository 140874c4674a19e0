"""The port of whoever keeps the numbers, and the values that cross it.

Enters: whose request it is and what it may use. Leaves: a ``Lease``, or ``Refused`` with a wait that is true. A lease
is held from admission to the last byte of the answer; ``settle`` is called once for each, whatever happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from gateway.limits.limit import Limit
    from gateway.limits.window import Entry
    from gateway.reasons import Reason

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


class Holder(NamedTuple):
    """Whose limits these are: a client of a plane, one person of it, or a model, for all clients of its plane.

    A tuple, never a text put together: no name can be chosen so that it runs into another.
    """

    plane: str
    client: str
    subject: str | None = None
    model: str | None = None

    @classmethod
    def of_model(cls, plane: str, alias: str) -> Holder:
        """Give the holder of what all clients of a plane share of a model."""
        return cls(plane, "", None, alias)


class Quota(NamedTuple):
    """One limit, what is left of it, and the time until all of it is there again, if nothing more comes."""

    limit: int
    left: int
    reset_us: int


class Refused(NamedTuple):
    """A limit was reached. Who waits ``wait_us`` is admitted, if nobody else of this holder comes first.

    For open requests the wait is an estimate, since nobody knows when a stream ends: the time until the first of them
    would end if they took as long as earlier ones of this holder, within a second and a minute.
    ``shared``: the limit is the model's, and the numbers are those of all clients: they are for nobody to see.
    """

    reason: Reason
    wait_us: int
    requests: Quota
    minute: Quota | None = None
    day: Quota | None = None
    shared: bool = False

    @property
    def retry_after(self) -> int:
        """Whole seconds, rounded up, as ``Retry-After`` wants them (RFC 9110 §10.2.3)."""
        return max(1, -(-self.wait_us // SECOND_US))


class Lease:
    """A request that was let in: it counts in its minute, and is one of the open ones until it is settled.

    ``left``: requests that its minute still has. ``reserved``: the tokens counted for it so far, on the UTC day that
    ``on_day`` stands for. ``minute_left`` and ``day_left`` say what is left of tokens, where they are limited, and
    ``day_reset_us`` when the day ends. ``shared``: the place that the call takes of its model's, where those are
    limited. ``id``, ``entry`` and ``on_day`` are the ledger's own marks.
    """

    __slots__ = (
        "day_left",
        "day_reset_us",
        "entry",
        "holder",
        "id",
        "left",
        "limit",
        "minute_left",
        "on_day",
        "reserved",
        "settled",
        "shared",
    )

    def __init__(self, holder: Holder, limit: Limit, left: int, lease_id: str = "") -> None:
        self.holder = holder
        self.limit = limit
        self.left = left
        self.id = lease_id
        self.reserved = self.on_day = self.day_reset_us = 0
        self.minute_left: int | None = None
        self.day_left: int | None = None
        self.entry: Entry | None = None
        self.settled = False
        self.shared: Lease | None = None

    @property
    def requests(self) -> Quota:
        """What is left of requests: this one was the last, so its minute ends when this one leaves it."""
        return Quota(self.limit.requests_per_minute, self.left, MINUTE_US)

    @property
    def minute(self) -> Quota | None:
        """What is left of the minute's tokens, if they are limited."""
        limit = self.limit.tokens_per_minute
        return None if limit is None or self.minute_left is None else Quota(limit, self.minute_left, MINUTE_US)

    @property
    def day(self) -> Quota | None:
        """What is left of the day's tokens, if they are limited."""
        limit = self.limit.tokens_per_day
        return None if limit is None or self.day_left is None else Quota(limit, self.day_left, self.day_reset_us)


Share = tuple[Holder, "Limit"]
"""A model, and what all clients together may use of it."""


class Ledger(Protocol):
    """Keeps the numbers: at once, or elsewhere, and then each method gives what is to be awaited instead.

    What is awaited raises ``Unavailable(LEDGER_UNAVAILABLE)`` within a bounded time, but for ``settle``: a ledger that
    cannot be asked lets nobody in.
    """

    def count(self, holder: Holder, limit: Limit) -> Awaitable[None] | None:
        """Count a request that was authenticated and is refused already."""

    def enter(self, holder: Holder, limit: Limit) -> Lease | Refused | Awaitable[Lease | Refused]:
        """Let a request in, if its minute has room and a place is free; it counts even if no place is."""

    def reserve(
        self, lease: Lease, tokens: int, model: Share | None = None
    ) -> Refused | Awaitable[Refused | None] | None:
        """Count the most that a call can use, before it is made; with ``model``, the call for its model as well.

        Both or none: where one has no room, nothing is counted of either, and the longer wait is told. Without tokens
        (0), no limit of tokens is asked.
        """

    def settle(self, lease: Lease, tokens: int) -> Awaitable[None] | None:
        """Free the place, and count what was used in place of what was reserved; a second time does nothing."""
