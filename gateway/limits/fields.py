"""What an answer says about limits: OpenAI's ``x-ratelimit-*`` fields and those that the IETF is working on.

Enters: a limit, once, and what is left of it. Leaves: header lines. The IETF's two fields are those of
draft-ietf-httpapi-ratelimit-headers-10; both are List structured fields (RFC 9651) of named quotas.
"""

from __future__ import annotations

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
        """Give the lines for an answer; of two limits of tokens, OpenAI's fields tell the one that has less left."""
        (_, left, reset_us), minute, day = of.requests, of.minute, of.day
        rest = b""
        if minute is not None:
            rest = b', "tokens";r=%d;t=%d' % (minute.left, _seconds(minute.reset_us))
        if day is not None:
            rest += b', "tokens-per-day";r=%d;t=%d' % (day.left, _seconds(day.reset_us))
        lines = [
            self._requests,
            b"x-ratelimit-remaining-requests: %d\r\n" % left,
            b"x-ratelimit-reset-requests: %b\r\n" % duration(reset_us),
            self._policy,
            b'ratelimit: "requests";r=%d;t=%d%b\r\n' % (left, _seconds(reset_us), rest),
        ]
        tokens = minute if day is None or (minute is not None and minute.left <= day.left) else day
        if tokens is not None:
            lines += (
                b"x-ratelimit-limit-tokens: %d\r\n" % tokens.limit,
                b"x-ratelimit-remaining-tokens: %d\r\n" % tokens.left,
                b"x-ratelimit-reset-tokens: %b\r\n" % duration(tokens.reset_us),
            )
        return lines


def _seconds(us: int) -> int:
    return -(-us // SECOND_US)


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
