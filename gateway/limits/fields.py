"""What an answer says about limits: OpenAI's ``x-ratelimit-*`` fields and those that the IETF is working on.

Enters: a limit, once, and what is left of it. Leaves: header lines. The IETF's two fields are those of
draft-ietf-httpapi-ratelimit-headers-10; both are List structured fields (RFC 9651) of named quotas.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gateway.limits.ledger import SECOND_US

if TYPE_CHECKING:
    from gateway.limits.ledger import Lease, Quota, Refused
    from gateway.limits.limit import Limit

# Of whoever was let in a moment ago, with a minute still to go; what is left is filled in.
_REQUESTS = b'x-ratelimit-remaining-requests: %d\r\nx-ratelimit-reset-requests: 1m0s\r\nratelimit: "requests";r=%d;t=60'
_TOKENS = (
    b', "tokens";r=%%d;t=60\r\n'
    b"x-ratelimit-limit-tokens: %d\r\nx-ratelimit-remaining-tokens: %%d\r\nx-ratelimit-reset-tokens: 1m0s\r\n"
)
_MS = 1000
_MINUTE_S, _HOUR_S = 60, 3600


class LimitFields:
    """The fields of one limit; what never changes is written once."""

    __slots__ = ("_alone", "_counted", "_fixed")

    def __init__(self, limit: Limit) -> None:
        named = [b'"requests";q=%d;w=60' % limit.requests_per_minute]
        if limit.tokens_per_minute is not None:
            named.append(b'"tokens";q=%d;w=60;qu="tokens"' % limit.tokens_per_minute)
        if limit.tokens_per_day is not None:
            named.append(b'"tokens-per-day";q=%d;w=86400;qu="tokens"' % limit.tokens_per_day)
        self._fixed = b"x-ratelimit-limit-requests: %d\r\nratelimit-policy: %b\r\n" % (
            limit.requests_per_minute,
            b", ".join(named),
        )
        self._alone = self._fixed + _REQUESTS + b"\r\n"
        self._counted = self._fixed + _REQUESTS + _TOKENS % (limit.tokens_per_minute or 0)

    def of_lease(self, lease: Lease) -> bytes:
        """Give the lines, in one piece, for whoever was let in: what he uses is the last to leave its minute."""
        left, minute, day = lease.left, lease.minute_left, lease.day_left
        if day is not None:
            return self._block(lease.requests, lease.minute, lease.day)
        return self._alone % (left, left) if minute is None else self._counted % (left, left, minute, minute)

    def of_refusal(self, refused: Refused) -> bytes:
        """Give them for whoever was not."""
        return self._block(refused.requests, refused.minute, refused.day)

    def _block(self, requests: Quota, minute: Quota | None, day: Quota | None) -> bytes:
        """Write the lines; of two limits of tokens, OpenAI's fields tell the one that has less left."""
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
            b"%bx-ratelimit-remaining-requests: %d\r\nx-ratelimit-reset-requests: %b\r\n"
            b'ratelimit: "requests";r=%d;t=%d%b\r\n%b'
        ) % (
            self._fixed,
            requests.left,
            duration(requests.reset_us),
            requests.left,
            _seconds(requests.reset_us),
            rest,
            triple,
        )


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
