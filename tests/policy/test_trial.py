from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.identity.principal import CredentialKind, Principal
from gateway.policy.decision import Deny, Permit
from gateway.policy.trial import Outcome, Request, answer
from gateway.reasons import Reason
from gateway.wire import strict_json
from tests.policy.edits import CONTROL, PARTNER, compiled

if TYPE_CHECKING:
    from gateway.policy.model import Plane

ACME = Principal("corp", CredentialKind.ACCESS_TOKEN, "6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90")
ORCHESTRATOR = Principal("platform", CredentialKind.ACCESS_TOKEN, "e0c1b9a4-5b1f-4f63-9b7e-3c2d1e0f9a8b")
CHAT = b'{"model":"local","messages":[{"role":"user","content":"a prompt"}]}'


@pytest.fixture(scope="module")
def partner() -> Plane:
    return compiled(PARTNER).plane


@pytest.fixture(scope="module")
def control() -> Plane:
    return compiled(CONTROL).plane


def ask(plane: Plane, ask: str, body: bytes = b"", principal: Principal | None = ACME) -> Outcome:
    """Send one request of an ordinary day."""
    method, target = ask.split(" ", 1)
    return answer(plane, Request(method, target.encode(), principal, "192.0.2.1", "2026-06-01", body))


@pytest.mark.parametrize(
    "line, body, reason",
    [
        ("GET v1/models", b"", Reason.TARGET_MALFORMED),
        ("GET //v1/models", b"", Reason.TARGET_NOT_CANONICAL),
        ("GET /v1/nothing", b"", Reason.NO_SUCH_ENDPOINT),
        ("PUT /v1/models", b"", Reason.METHOD_NOT_ALLOWED),
        ("GET /v1/models?", b"", Reason.QUERY_NOT_ACCEPTED),
        ("POST /v1/embeddings", b"", Reason.SCOPE_MISSING),
        ("POST /v1/chat/completions", b"", Reason.BODY_MALFORMED),
        ("POST /v1/chat/completions", b"[]", Reason.BODY_MALFORMED),
        ("POST /v1/chat/completions", b" " * (2 * 1024 * 1024 + 1), Reason.BODY_TOO_LARGE),
        ("POST /v1/chat/completions", b" " * (2 * 1024 * 1024), Reason.BODY_MALFORMED),
        ("POST /v1/chat/completions", b'{"model":"embed","messages":[]}', Reason.MODEL_NOT_PERMITTED),
        ("GET /v1/models", b"{}", Reason.BODY_MALFORMED),
    ],
)
def test_the_first_room_that_refuses_gives_the_reason(partner: Plane, line: str, body: bytes, reason: Reason) -> None:
    outcome = ask(partner, line, body)
    assert isinstance(outcome.verdict, Deny)
    assert outcome.verdict.reason is reason
    assert outcome.sent is None


def test_without_a_credential_only_the_target_is_read(partner: Plane) -> None:
    outcome = ask(partner, "POST /v1/chat/completions", b"", None)
    assert outcome.verdict == Deny(Reason.CREDENTIAL_MISSING)
    assert outcome.endpoint is not None
    assert outcome.grant is None
    assert outcome.models == ()


def test_a_permit_comes_with_what_is_sent(partner: Plane) -> None:
    outcome = ask(partner, "POST /v1/chat/completions", CHAT)
    assert isinstance(outcome.verdict, Permit)
    assert outcome.sent is not None
    assert strict_json.loads(outcome.sent)["chat_template_kwargs"] == {"enable_thinking": False}
    assert outcome.models == ()


def test_what_is_sent_has_the_client_s_salt_by_name_since_the_real_one_is_a_secret(partner: Plane) -> None:
    outcome = ask(partner, "POST /v1/chat/completions", CHAT)
    assert isinstance(outcome.verdict, Permit)
    assert str(outcome.verdict.changes[-1]) == "set cache_salt"
    assert strict_json.loads(outcome.sent or b"")["cache_salt"] == "(the salt of acme)"


def test_a_list_of_models_is_the_client_s(partner: Plane) -> None:
    outcome = ask(partner, "GET /v1/models")
    assert (outcome.sent, outcome.models) == (None, ("local", "reasoner", "embed"))


def test_one_model_is_the_one_of_the_path(partner: Plane) -> None:
    assert ask(partner, "GET /v1/models/reasoner").models == ("reasoner",)


def test_a_control_endpoint_is_judged_although_it_is_not_served_yet(control: Plane) -> None:
    outcome = ask(control, "POST /engines/main/sleep?level=1", principal=ORCHESTRATOR)
    assert isinstance(outcome.verdict, Permit)
    assert (outcome.sent, outcome.models) == (None, ())


def test_a_control_endpoint_takes_no_body(control: Plane) -> None:
    verdict = ask(control, "POST /engines/main/wake", b"{}", ORCHESTRATOR).verdict
    assert isinstance(verdict, Deny)
    assert verdict.reason is Reason.BODY_MALFORMED


def test_bodies_stay_out_of_representations(partner: Plane) -> None:
    assert "a prompt" not in repr(ask(partner, "POST /v1/chat/completions", CHAT))
    assert "a prompt" not in repr(Request("POST", b"/", None, None, "2026-06-01", b"a prompt"))


def test_what_a_plane_says_about_itself_is_asked_for_before_anything_else(partner: Plane) -> None:
    described = replace(partner, resource="https://llm.example.com")
    place = "/.well-known/oauth-protected-resource"
    for principal in (ACME, None):
        outcome = ask(described, f"GET {place}", principal=principal)
        assert outcome.verdict == Permit()
        assert outcome.metadata is not None
        assert outcome.models == ()
    assert ask(described, f"PUT {place}").verdict == Deny(Reason.METHOD_NOT_ALLOWED, "GET")
    assert ask(replace(partner, resource=None), f"GET {place}").verdict == Deny(Reason.NO_SUCH_ENDPOINT)
