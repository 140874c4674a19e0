"""The bounds of an open port: how much and how long a client's connection may take.

Enters: seconds and numbers from the settings of a listener. Leaves: ``EdgeLimits``, and the bounds that no setting
changes.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD_AT_MOST = 40 * 1024
"""Bytes that may come without a whole head, a byte of a body or its end, chunk extensions and trailers among them:
32 KiB of fields, the target, and some room."""

PIPELINE_AT_MOST = 8
"""Requests that may wait behind the one being answered; behind them the connection ends, as RFC 9112 §9.3.2 lets it."""

REQUESTS_AT_MOST = 10_000
"""Requests on one connection, so that no connection and nothing that hangs on it lives for ever."""

LINGER_BYTES = 64 * 1024 * 1024
"""Bytes of an unread body that are drained, so that a reset does not overtake the answer."""
LINGER_S = 5.0
"""Seconds that a connection has for its close."""
FIRST_S = 1.0
"""Seconds that a new connection has for its first request when nothing more is accepted: it may be on its way."""


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """Bounds of a listener: seconds for a head and for a body, connections at one time, and seconds for a close."""

    head_s: float = 15.0
    body_s: float = 30.0
    connections: int = 10_000
    linger_s: float = LINGER_S
