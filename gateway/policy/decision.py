"""Verdicts as values: a ``Permit`` with the changes to make, or a ``Deny`` with its reason.

What each permitted request makes is not frozen: it would take four times as long, and lives as long as the request.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gateway.dialects.checks import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.identity.principal import Principal
    from gateway.policy.model import Client, Endpoint, Model
    from gateway.reasons import Reason


_WHAT = attrgetter("action", "field")
_UNSAFE = re.compile(r"[^A-Za-z0-9_., -]")
_NAMED_AT_MOST = 1024


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


def told(changes: Iterable[Change]) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
    """Give the words of the audit record, and the header line that names what is not as it was sent, if any."""
    what = tuple(map(_WHAT, changes))
    # Names that were dropped are the caller's, and as many and as long as he likes: they are not kept.
    return _told.__wrapped__(what) if "drop" in dict(what) else _told(what)


@lru_cache(maxsize=512)
def _told(what: tuple[tuple[str, str], ...]) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
    changes = [Change(action, field) for action, field in what]
    named = [str(change) for change in changes if change.action != "set" and change.field != "model"]
    # Names of dropped fields are the caller's own text: nothing of it may end the header line.
    line = b"x-gateway-changes: %b\r\n" % _UNSAFE.sub("?", ", ".join(named))[:_NAMED_AT_MOST].encode("ascii")
    return tuple(map(str, changes)), (line,) if named else ()
