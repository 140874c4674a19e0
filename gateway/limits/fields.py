"""What an answer says about limits: OpenAI's ``x-ratelimit-*`` fields and those that the IETF is working on.

Enters: a limit, once, and what is left of it. Leaves: header lines. The IETF's two fields are those of
draft-ietf-httpapi-ratelimit-headers-10; both are List structured fields (RFC 9651) of named quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.limits.ledger import SECOND_US

if TYPE_CHECKING:
    from gateway.limits.ledger import Lease, Quota, Refused
    from gateway.limits.limit import Limit

_OPENAI = (
    b"x-ratelimit-limit-%b: %d\r\n"
    b"x-ratelimit-remaining-%b: %d\r\n"
    b"x-ratelimit-reset-%b: %b\r\n"
)  # fmt: skip
_MS = 1000
_MINUTE_S, _HOUR_S = 60, 3600


class LimitFields:
    """The fields of one limit; what never changes is written once."""

    __slots__ = ("_policy",)

    def __init__(self, limit: Limit) -> None:
        named = [b'"requests";q=%d;w=60' % limit.requests_per_minute]
        if limit.tokens_per_minute is not None:
            named.append(b'"tokens";q=%d;w=60;qu="tokens"' % limit.tokens_per_minute)
        if limit.tokens_per_day is not None:
            named.append(b'"tokens-per-day";q=%d;w=86400;qu="tokens"' % limit.tokens_per_day)
        self._policy = b"ratelimit-policy: " + b", ".join(named) + b"\r\n"

    def lines(self, of: Lease | Refused) -> bytes:
        """Give the lines for an answer; of two limits of tokens, OpenAI's fields tell the one that has less left."""
        requests, minute, day = of.requests, of.minute, of.day
        parts = [_openai(b"requests", requests), self._policy, b'ratelimit: "requests"', _left(requests)]
        if minute is not None:
            parts += (b', "tokens"', _left(minute))
        if day is not None:
            parts += (b', "tokens-per-day"', _left(day))
        parts.append(b"\r\n")
        tokens = min((quota for quota in (minute, day) if quota is not None), key=_by_left, default=None)
        if tokens is not None:
            parts.append(_openai(b"tokens", tokens))
        return b"".join(parts)


def _by_left(quota: Quota) -> int:
    return quota.left


def _left(quota: Quota) -> bytes:
    return b";r=%d;t=%d" % (quota.left, -(-quota.reset_us // SECOND_US))


def _openai(unit: bytes, quota: Quota) -> bytes:
    return _OPENAI % (unit, quota.limit, unit, quota.left, unit, duration(quota.reset_us))


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
