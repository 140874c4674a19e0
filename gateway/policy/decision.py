"""Verdicts as values: a ``Permit`` with the changes to make, or a ``Deny`` with its reason.

What each permitted request makes is not frozen: it would take four times as long, and lives as long as the request.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.dialects.checks import shown

if TYPE_CHECKING:
    from gateway.identity.principal import Principal
    from gateway.policy.model import Client, Endpoint, Model
    from gateway.reasons import Reason


@dataclass(frozen=True, slots=True)
class Deny:
    """Refused.

    ``detail`` and ``param`` are safe to show (see ``Malformed``); ``record`` is for the audit record alone. For a wrong
    method, ``detail`` is the value of ``Allow`` (RFC 9110 §10.2.1), for a missing scope the scopes that are needed.
    ``client``: whose request it is, where that is known: it counts against its limits.
    """

    reason: Reason
    detail: str = ""
    param: str | None = None
    record: str = ""
    client: Client | None = dataclasses.field(default=None, repr=False, compare=False)


@dataclass(slots=True)
class Change:
    """One difference between what was sent and what was judged fit.

    ``action``: ``set`` (the caller named none), ``replace`` (the caller's value is overwritten), ``lower`` (to a cap)
    or ``drop``. ``field`` is dotted. ``value`` is what is sent instead (none for drop); it never enters a log or an
    answer.
    """

    action: str
    field: str
    value: Any = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        """Give the form in which audit records and the ``x-gateway-changes`` header name it (all but ``set``)."""
        return f"{self.action} {shown(self.field)}"


@dataclass(slots=True)
class Grant:
    """The gatehouse let the caller in: this client, on this endpoint."""

    client: Client
    endpoint: Endpoint
    principal: Principal


@dataclass(slots=True)
class Permit:
    """The court let the call through.

    ``model`` is the resolved model; ``None`` for dialects without one. ``stream``: an event stream is asked for.
    ``most_tokens`` is the most that all answers together can have; 0 where no text is generated.
    """

    changes: tuple[Change, ...] = ()
    model: Model | None = None
    stream: bool = False
    most_tokens: int = 0
