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


def test_a_limit_of_requests_alone_has_the_triple_and_the_two_fields_of_the_draft() -> None:
    assert LimitFields(Limit("small", 60, 4)).lines(Lease(Holder("p", "c"), LIMIT, REQUESTS)) == [
        b"x-ratelimit-limit-requests: 60\r\n",
        b"x-ratelimit-remaining-requests: 59\r\n",
        b"x-ratelimit-reset-requests: 1m0s\r\n",
        b'ratelimit-policy: "requests";q=60;w=60\r\n',
        b'ratelimit: "requests";r=59;t=60\r\n',
    ]


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
    lines = LimitFields(LIMIT).lines(Refused(Reason.OVER_TOKENS, SECOND, REQUESTS, minute, day))
    assert lines[3] == (
        b'ratelimit-policy: "requests";q=60;w=60, "tokens";q=1000;w=60;qu="tokens", '
        b'"tokens-per-day";q=5000;w=86400;qu="tokens"\r\n'
    )
    assert lines[4] == b'ratelimit: "requests";r=59;t=60' + left + b"\r\n"
    assert lines[5:] == [
        b"x-ratelimit-limit-tokens: %d\r\n" % told[0],
        b"x-ratelimit-remaining-tokens: %d\r\n" % told[1],
        b"x-ratelimit-reset-tokens: %b\r\n" % told[2],
    ]
