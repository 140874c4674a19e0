from __future__ import annotations

import pytest

from gateway.limits.fields import LimitFields, duration
from gateway.limits.ledger import Holder, Lease, Quota, Refused
from gateway.limits.limit import Limit
from gateway.reasons import Reason

SECOND = 1_000_000
LIMIT = Limit("wide", 60, 4, 1000, 5000)
REQUESTS = Quota(60, 59, 60 * SECOND)


@pytest.mark.parametrize(
    "us,text",
    [
        (0, b"0ms"),
        (1, b"1ms"),
        (11_500, b"12ms"),
        (999_001, b"1s"),
        (SECOND, b"1s"),
        (59 * SECOND, b"59s"),
        (59 * SECOND + 1, b"1m0s"),
        (360 * SECOND, b"6m0s"),
        (86_399 * SECOND, b"23h59m59s"),
        (86_400 * SECOND, b"24h0m0s"),
    ],
)
def test_times_are_written_as_openai_writes_them_and_rounded_up(us: int, text: bytes) -> None:
    assert duration(us) == text


def lease(limit: Limit, minute: int | None = None, day: int | None = None) -> Lease:
    lease = Lease(Holder("p", "c"), limit, 59)
    lease.minute_left, lease.day_left, lease.day_reset_us = minute, day, 3600 * SECOND
    return lease


def lines(block: bytes) -> list[bytes]:
    return block.splitlines()


def test_a_limit_of_requests_alone_has_the_triple_and_the_two_fields_of_the_draft() -> None:
    limit = Limit("small", 60, 4)
    assert lines(LimitFields(limit).of_lease(lease(limit))) == [
        b"x-ratelimit-limit-requests: 60",
        b'ratelimit-policy: "requests";q=60;w=60',
        b"x-ratelimit-remaining-requests: 59",
        b"x-ratelimit-reset-requests: 1m0s",
        b'ratelimit: "requests";r=59;t=60',
    ]


@pytest.mark.parametrize("limit,minute,day", [
    (Limit("small", 60, 4), None, None),
    (Limit("minute", 60, 4, 1000), 900, None),
    (Limit("day", 60, 4, None, 5000), None, 12),
    (Limit("both", 60, 4, 1000, 5000), 900, 12),
    (Limit("both", 60, 4, 1000, 5000), 5, 12),
])  # fmt: skip
def test_whoever_was_let_in_is_told_what_he_would_be_told_if_he_was_not(
    limit: Limit, minute: int | None, day: int | None
) -> None:
    """What is written beforehand for those who were let in is what is worked out for those who were not."""
    held, fields = lease(limit, minute, day), LimitFields(limit)
    refused = Refused(Reason.OVER_TOKENS, SECOND, held.requests, held.minute, held.day)
    assert fields.of_lease(held) == fields.of_refusal(refused)


MINUTE, DAY = Quota(1000, 900, 59 * SECOND), Quota(5000, 12, 3600 * SECOND)


@pytest.mark.parametrize(
    "minute,day,told,left",
    [
        (MINUTE, DAY, (5000, 12, b"1h0m0s"), b', "tokens";r=900;t=59, "tokens-per-day";r=12;t=3600'),
        (Quota(1000, 5, 1), DAY, (1000, 5, b"1ms"), b', "tokens";r=5;t=1, "tokens-per-day";r=12;t=3600'),
        (MINUTE, None, (1000, 900, b"59s"), b', "tokens";r=900;t=59'),
        (None, DAY, (5000, 12, b"1h0m0s"), b', "tokens-per-day";r=12;t=3600'),
    ],
)
def test_of_two_limits_of_tokens_openais_triple_tells_the_scarcer_and_the_draft_tells_both(
    minute: Quota | None, day: Quota | None, told: tuple[int, int, bytes], left: bytes
) -> None:
    told_lines = lines(LimitFields(LIMIT).of_refusal(Refused(Reason.OVER_TOKENS, SECOND, REQUESTS, minute, day)))
    assert told_lines[1] == (
        b'ratelimit-policy: "requests";q=60;w=60, "tokens";q=1000;w=60;qu="tokens", '
        b'"tokens-per-day";q=5000;w=86400;qu="tokens"'
    )
    assert told_lines[4] == b'ratelimit: "requests";r=59;t=60' + left
    assert told_lines[5:] == [
        b"x-ratelimit-limit-tokens: %d" % told[0],
        b"x-ratelimit-remaining-tokens: %d" % told[1],
        b"x-ratelimit-reset-tokens: %b" % told[2],
    ]
