"""The values that cross the ports show no prompt and do not change."""

from __future__ import annotations

import pytest

from gateway.dialects.registry import DIALECTS
from gateway.policy.model import Deadlines
from gateway.ports import Delivery, Ending, EngineAnswer, UpstreamRequest


def test_what_goes_to_an_engine_and_comes_back_stays_out_of_reprs() -> None:
    chat = DIALECTS["openai-chat"]
    request = UpstreamRequest("1", "public", "main", "POST", "/", b"prompt", False, chat, Deadlines(), [])
    assert "prompt" not in repr(request)
    assert "secret" not in repr(Delivery(Ending.ANSWERED, answer=EngineAnswer(400, b"secret")))


def test_a_delivery_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Delivery(Ending.DELIVERED).ending = Ending.FAILED  # type: ignore[misc]  # that is the test
