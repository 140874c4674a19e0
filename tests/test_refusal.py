"""What a caller is told, and what is for the audit record alone."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.registry import DIALECTS
from gateway.engine.complaint import PROMPT_TOO_LONG
from gateway.policy.decision import Deny
from gateway.reasons import ANSWERS, PUBLIC, Malformed, Reason, Unavailable
from gateway.refusal import MESSAGE_AT_MOST, Refusal

CHAT = DIALECTS["openai-chat"]


def fields(refusal: Refusal, challenge: str | None = None) -> dict[str, str]:
    lines = refusal.lines(challenge)
    assert all(line.endswith(b"\r\n") and line.count(b"\n") == 1 for line in lines)
    return dict(line[:-2].decode("ascii").split(": ", 1) for line in lines)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_status_a_sentence_and_a_proxy_status(reason: Reason) -> None:
    for cause in (Deny(reason), Malformed(reason), Unavailable(reason)):
        refusal = Refusal.of(cause)
        assert (refusal.status, refusal.message) == (ANSWERS[reason].status, ANSWERS[reason].sentence)
        public = PUBLIC.get(reason, reason)
        proxy_status = f'vllm-gateway; error={ANSWERS[reason].proxy_error}; details="{public}"'
        assert fields(refusal) == {"content-type": "application/json", "proxy-status": proxy_status}
        assert json.loads(refusal.body(CHAT, "id"))["error"]["code"] == public


def test_a_detail_follows_the_sentence_as_it_is() -> None:
    refusal = Refusal.of(Malformed(Reason.PARAMETER_INVALID, "max_tokens must be an integer", param="max_tokens"))
    assert refusal.message == "A parameter has a value that is not valid (max_tokens must be an integer)."
    assert refusal.param == "max_tokens"
    assert json.loads(refusal.body(CHAT, "id"))["error"]["param"] == "max_tokens"


@pytest.mark.parametrize(
    "reason", [Reason.CREDENTIAL_INVALID, Reason.CLIENT_UNKNOWN, Reason.KEYS_UNAVAILABLE, Reason.INTERNAL]
)
def test_some_details_are_for_the_record_alone(reason: Reason) -> None:
    for cause in (Malformed(reason, "a claim is wrong"), Unavailable(reason, "a claim is wrong")):
        refusal = Refusal.of(cause)
        assert refusal.message == ANSWERS[reason].sentence
        assert refusal.record == "a claim is wrong"


def test_what_a_deny_says_to_the_record_is_not_told() -> None:
    refusal = Refusal.of(Deny(Reason.CLIENT_SUSPENDED, record="client acme"))
    assert refusal.record == "client acme"
    assert "acme" not in refusal.message


def test_a_wrong_method_is_told_those_that_are_there() -> None:
    assert fields(Refusal.of(Deny(Reason.METHOD_NOT_ALLOWED, "GET, POST")))["allow"] == "GET, POST"
    assert "allow" not in fields(Refusal.of(Deny(Reason.SCOPE_MISSING, "a b")))


def test_a_dependency_can_have_another_status_and_a_time_to_wait() -> None:
    refusal = Refusal.of(Unavailable(Reason.ENGINE_UNAVAILABLE, status=503, retry_after=7))
    assert (refusal.status, fields(refusal)["retry-after"]) == (503, "7")


def test_a_deadline_is_named_in_proxy_status() -> None:
    refusal = Refusal.of(Unavailable(Reason.ENGINE_TIMEOUT, "first-byte"))
    assert fields(refusal)["proxy-status"].endswith('details="engine-timeout"; deadline=first-byte')


def test_a_challenge_is_one_of_the_fields() -> None:
    refusal = Refusal.of(Malformed(Reason.CREDENTIAL_MISSING))
    assert fields(refusal, 'Bearer realm="a"')["www-authenticate"] == 'Bearer realm="a"'


@pytest.mark.parametrize(
    "status, told, reason, made_here",
    [
        (200, 502, Reason.ENGINE_MALFORMED, True),
        (204, 502, Reason.ENGINE_MALFORMED, True),
        (307, 502, Reason.ENGINE_MALFORMED, True),
        (400, 400, Reason.ENGINE_ERROR, False),
        (401, 502, Reason.ENGINE_REFUSED_GATEWAY, True),
        (403, 502, Reason.ENGINE_REFUSED_GATEWAY, True),
        (404, 404, Reason.ENGINE_ERROR, False),
        (422, 422, Reason.ENGINE_ERROR, False),
        (429, 429, Reason.ENGINE_OVERLOADED, False),
        (500, 502, Reason.ENGINE_ERROR, True),
        (501, 501, Reason.ENGINE_ERROR, True),
        (503, 503, Reason.ENGINE_OVERLOADED, True),
        (504, 504, Reason.ENGINE_TIMEOUT, True),
        (599, 599, Reason.ENGINE_ERROR, True),
        (600, 502, Reason.ENGINE_ERROR, True),
        (999, 502, Reason.ENGINE_ERROR, True),
    ],
)
def test_an_engines_status_is_kept_where_it_is_the_callers_to_know(
    status: int,
    told: int,
    reason: Reason,
    made_here: bool,  # noqa: FBT001  (a row of a table)
) -> None:
    refusal = Refusal.of_engine(status, "said", "")
    assert (refusal.status, refusal.reason, refusal.made_here) == (told, reason, made_here)
    assert ("proxy-status" in fields(refusal)) == made_here
    assert (refusal.message == "said") == (status in {400, 422, 429})


@pytest.mark.parametrize("status, kept", [(429, True), (503, True), (400, False), (500, False)])
def test_a_time_to_wait_is_kept_where_waiting_helps(status: int, kept: bool) -> None:  # noqa: FBT001
    assert ("retry-after" in fields(Refusal.of_engine(status, "", "7"))) == kept


def test_an_engines_message_is_bounded_and_never_empty() -> None:
    assert Refusal.of_engine(400, "x" * 10_000, "").message == "x" * MESSAGE_AT_MOST
    assert Refusal.of_engine(400, None, "").message == "The engine refused the request."


@pytest.mark.parametrize(
    "status, said, reason, message",
    [
        (
            500,
            "CUDA out of memory at /models/x",
            Reason.ENGINE_ERROR,
            "The engine failed while answering (out of memory).",
        ),
        (503, "EngineDeadError", Reason.ENGINE_ERROR, "The engine failed while answering (the engine core died)."),
        (503, "no", Reason.ENGINE_OVERLOADED, "The engine has too much to do. Try again shortly (its queue is full)."),
    ],
)
def test_what_ails_an_engine_is_named_and_its_words_are_not_passed_on(
    status: int, said: str, reason: Reason, message: str
) -> None:
    refusal = Refusal.of_engine(status, said, "7")
    assert (refusal.reason, refusal.message) == (reason, message)
    assert refusal.record in message


def test_a_prompt_that_is_too_long_is_named_in_the_record_and_told_in_the_engines_words() -> None:
    refusal = Refusal.of_engine(400, "This model's maximum context length is 8 tokens.", "")
    assert (refusal.message, refusal.record) == ("This model's maximum context length is 8 tokens.", PROMPT_TOO_LONG)
