"""What an answer says about limits: OpenAI's ``x-ratelimit-*`` fields and those that the IETF is working on.

Enters: a limit, once, and what is left of it. Leaves: header lines. The IETF's two fields are those of
draft-ietf-httpapi-ratelimit-headers-10; both are List structured fields (RFC 9651) of named quotas.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gateway.limits.ledger import SECOND_US

if TYPE_CHECKING:
    from gateway.limits.ledger import Lease, Refused
    from gateway.limits.limit import Limit

_MS = 1000
_MINUTE_S, _HOUR_S = 60, 3600


class LimitFields:
    """The fields of one limit; what never changes is written once."""

    __slots__ = ("_policy", "_requests")

    def __init__(self, limit: Limit) -> None:
        named = [b'"requests";q=%d;w=60' % limit.requests_per_minute]
        if limit.tokens_per_minute is not None:
            named.append(b'"tokens";q=%d;w=60;qu="tokens"' % limit.tokens_per_minute)
        if limit.tokens_per_day is not None:
            named.append(b'"tokens-per-day";q=%d;w=86400;qu="tokens"' % limit.tokens_per_day)
        self._policy = b"ratelimit-policy: " + b", ".join(named) + b"\r\n"
        self._requests = b"x-ratelimit-limit-requests: %d\r\n" % limit.requests_per_minute

    def lines(self, of: Lease | Refused) -> list[bytes]:
        """Give the lines for an answer, each by itself."""
        return self.block(of).splitlines(keepends=True)

    def block(self, of: Lease | Refused) -> bytes:
        """Give them in one piece; of two limits of tokens, OpenAI's fields tell the one that has less left."""
        (_, left, reset_us), minute, day = of.requests, of.minute, of.day
        rest = triple = b""
        if minute is not None:
            rest = b', "tokens";r=%d;t=%d' % (minute.left, _seconds(minute.reset_us))
        if day is not None:
            rest += b', "tokens-per-day";r=%d;t=%d' % (day.left, _seconds(day.reset_us))
        tokens = minute if day is None or (minute is not None and minute.left <= day.left) else day
        if tokens is not None:
            triple = (
                b"x-ratelimit-limit-tokens: %d\r\nx-ratelimit-remaining-tokens: %d\r\nx-ratelimit-reset-tokens: %b\r\n"
                % (tokens.limit, tokens.left, duration(tokens.reset_us))
            )
        return (
            b"%bx-ratelimit-remaining-requests: %d\r\nx-ratelimit-reset-requests: %b\r\n%b"
            b'ratelimit: "requests";r=%d;t=%d%b\r\n%b'
        ) % (self._requests, left, duration(reset_us), self._policy, left, _seconds(reset_us), rest, triple)


def _seconds(us: int) -> int:
    return -(-us // SECOND_US)


@lru_cache(maxsize=1024)  # whoever was just counted waits for exactly a minute
def duration(us: int) -> bytes:
    """Write a time as OpenAI does: ``12ms``, ``1s``, ``6m0s``, ``23h59m59s``; rounded up."""
    milliseconds = -(-us // _MS)
    if milliseconds < _MS:
        return b"%dms" % milliseconds
    seconds = -(-milliseconds // _MS)
    if seconds < _MINUTE_S:
        return b"%ds" % seconds
    if seconds < _HOUR_S:
        return b"%dm%ds" % divmod(seconds, _MINUTE_S)
    minutes, seconds = divmod(seconds, _MINUTE_S)
    return b"%dh%dm%ds" % (*divmod(minutes, _MINUTE_S), seconds)
