from __future__ import annotations

import pytest

from gateway.inquiry import Failure, Reply


@pytest.mark.parametrize(
    "reply, why",
    [
        (Reply(failure=Failure.REFUSED), "connection refused"),
        (Reply(failure=Failure.TLS, detail="certificate has expired"), "TLS failed (certificate has expired)"),
    ],
)
def test_a_reply_that_did_not_come_says_why(reply: Reply, why: str) -> None:
    assert reply.why == why


def test_what_an_engine_said_is_in_no_repr() -> None:
    assert "secret" not in repr(Reply(200, {}, b"secret"))
