from __future__ import annotations

import pytest
from starlette.requests import Request

from gateway.simulator.errors import refused
from tests.simulator.conftest import Asking, hi


async def test_a_failed_validation_is_400_with_the_place_and_the_input(asking: Asking) -> None:
    status, answer = await asking.post("/v1/chat/completions", hi(messages="x"))
    assert status == 400
    message = answer["error"].pop("message")
    assert answer == {"error": {"type": "Bad Request", "param": "body.messages", "code": 400}}
    assert message.startswith("1 validation error:")
    assert "'x'" in message


async def test_several_failures_are_counted(asking: Asking) -> None:
    _, answer = await asking.post("/v1/chat/completions", {"n": "x", "stream": "maybe"})
    assert answer["error"]["message"].startswith("3 validation errors:")


async def test_an_unknown_model_is_404_and_names_the_known_ones(asking: Asking) -> None:
    status, answer = await asking.post("/v1/chat/completions", hi(model="zzz"))
    assert status == 404
    message = "The model `zzz` does not exist. Valid aliases: local."
    assert answer == {"error": {"message": message, "type": "NotFoundError", "param": "model", "code": 404}}


async def test_what_is_not_routed_is_answered_as_fastapi_words_it(asking: Asking) -> None:
    assert await asking.get("/nothing") == (404, {"detail": "Not Found"})
    assert await asking.post("/health", {}) == (405, {"detail": "Method Not Allowed"})


async def test_only_refusals_are_answered_as_refusals() -> None:
    with pytest.raises(LookupError):
        await refused(Request({"type": "http"}), LookupError())
