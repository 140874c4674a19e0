from __future__ import annotations

from typing import Any

import pytest

from gateway.identity.principal import CredentialKind, Principal
from gateway.limits.limit import Limit
from gateway.policy.decision import Deny, Grant, Permit
from gateway.policy.document_cases import CaseKeys
from gateway.policy.model import Model
from gateway.policy.promises import differences
from gateway.policy.trial import Outcome
from gateway.reasons import Reason
from gateway.wire import strict_json
from tests.policy.edits import INTERNAL, compiled

PLANE = compiled(INTERNAL).plane
GRANT = Grant(
    PLANE.clients["agents"],
    PLANE.endpoints[b"/v1/chat/completions"]["POST"],
    Principal("corp", CredentialKind.ACCESS_TOKEN, "x"),
)
SENT = {"model": "local", "n": 1, "on": True, "kwargs": {"enable": False, "other": 0}, "stop": [{"a": 1, "b": 2}, "x"]}


def case(**promise: Any) -> CaseKeys:  # noqa: ANN401  (as written in a file)
    """Give a case with a promise."""
    return CaseKeys.model_validate({"name": "x", "who": "y", "ask": "POST /", **promise})


def permitted(sent: dict[str, Any] | None = SENT) -> Outcome:
    """Give the outcome of a request that went through."""
    return Outcome(Permit(), GRANT.endpoint, GRANT, None if sent is None else strict_json.dumps(sent))


def found(outcome: Outcome, **promise: Any) -> list[tuple[str, str]]:  # noqa: ANN401  (as above)
    """Give the differences between a promise and an outcome."""
    return list(differences(case(**promise), outcome))


def test_the_promised_reason_holds() -> None:
    assert found(Outcome(Deny(Reason.MODEL_MISSING)), deny="model-missing") == []


def test_another_reason_is_told_with_its_detail() -> None:
    outcome = Outcome(Deny(Reason.PARAMETER_INVALID, "must be text", "user"))
    assert found(outcome, deny="model-missing") == [("deny: model-missing", "deny: parameter-invalid (must be text)")]


def test_a_refusal_without_detail_is_told_by_its_field_or_record() -> None:
    assert found(Outcome(Deny(Reason.PARAMETER_OVER_CAP, "", "n")), permit={}) == [
        ("permit", "deny: parameter-over-cap (n)")
    ]
    by_record = Outcome(Deny(Reason.CLIENT_UNKNOWN, record="fits no client"))
    assert found(by_record, permit={}) == [("permit", "deny: client-unknown (fits no client)")]
    assert found(Outcome(Deny(Reason.BODY_TOO_LARGE)), permit={}) == [("permit", "deny: body-too-large")]


def test_a_permit_where_a_refusal_was_promised_is_told() -> None:
    assert found(permitted(), deny="model-missing") == [("deny: model-missing", "permit")]


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"model": "local"},
        {"kwargs": {"enable": False}},
        {"stop": [{"a": 1}, "x"]},
        {"n": 1.0},
        {"kwargs": {}},
    ],
)
def test_mappings_may_be_promised_in_part(sent: dict[str, Any]) -> None:
    assert found(permitted(), permit={"sent": sent}) == []


@pytest.mark.parametrize(
    "sent, expected, got",
    [
        ({"model": "x"}, 'sent.model: "x"', 'sent.model: "local"'),
        ({"absent": 1}, "sent.absent: 1", "sent.absent: nothing"),
        ({"n": True}, "sent.n: true", "sent.n: 1"),
        ({"on": 1}, "sent.on: 1", "sent.on: true"),
        ({"kwargs": {"enable": 0}}, "sent.kwargs.enable: 0", "sent.kwargs.enable: false"),
        ({"stop": [{"a": 1}]}, 'sent.stop: [{"a": 1}]', 'sent.stop: [{"a": 1, "b": 2}, "x"]'),
        ({"stop": [{"a": 2}, "x"]}, "sent.stop[0].a: 2", "sent.stop[0].a: 1"),
        ({"kwargs": "x"}, 'sent.kwargs: "x"', 'sent.kwargs: {"enable": false, "other": 0}'),
    ],
)
def test_a_value_that_is_not_sent_as_promised_is_told(sent: dict[str, Any], expected: str, got: str) -> None:
    assert found(permitted(), permit={"sent": sent}) == [(expected, got)]


def test_every_difference_is_told() -> None:
    assert len(found(permitted(), permit={"sent": {"model": "x", "n": 2}, "not_sent": ["on"]})) == 3


def test_what_must_not_be_sent_is_looked_for_below_its_parent() -> None:
    assert found(permitted(), permit={"not_sent": ["user", "kwargs.thinking", "model.x"]}) == []
    assert found(permitted(), permit={"not_sent": ["kwargs.other"]}) == [
        ("not_sent: kwargs.other", "sent.kwargs.other: 0")
    ]


def test_where_nothing_is_sent_nothing_can_be_promised_of_it() -> None:
    assert found(permitted(None), permit={"sent": {"a": 1}, "not_sent": ["a"]}) == [('sent: {"a": 1}', "sent: nothing")]


def test_models_are_compared_as_a_whole_in_any_order() -> None:
    listed = Outcome(Permit(), GRANT.endpoint, GRANT)
    assert found(listed, permit={"models": ["local"]}) == []
    assert found(listed, permit={"models": ["local", "x"]}) == [('models: ["local", "x"]', 'models: ["local"]')]


def test_limits_are_compared_as_a_whole() -> None:
    limits = {
        "requests_per_minute": 60,
        "concurrent_requests": 4,
        "tokens_per_minute": 200000,
        "tokens_per_day": 4000000,
    }
    assert found(permitted(), permit={"limits": limits, "each": "subject"}) == []
    ((expected, got),) = found(permitted(), permit={"limits": {"requests_per_minute": 60}})
    assert expected == 'limits: {"requests_per_minute": 60}'
    assert '"tokens_per_day": 4000000' in got


def test_the_usual_priority_goes_without_saying_and_another_does_not() -> None:
    limits = {
        "requests_per_minute": 60,
        "concurrent_requests": 4,
        "tokens_per_minute": 200000,
        "tokens_per_day": 4000000,
    }
    assert found(permitted(), permit={"limits": {**limits, "priority": "normal"}}) == []
    ((expected, _),) = found(permitted(), permit={"limits": {**limits, "priority": "low"}})
    assert expected.startswith('limits: {"priority": "low"')


def test_the_limits_of_the_model_are_compared_as_a_whole() -> None:
    limited = Permit(model=Model("m", "e", "s", limit=Limit("big", 5, 2)))
    outcome = Outcome(limited, GRANT.endpoint, GRANT, b"{}")
    assert found(outcome, permit={"model_limits": {"requests_per_minute": 5, "concurrent_requests": 2}}) == []
    assert found(outcome, permit={"model_limits": {"requests_per_minute": 6, "concurrent_requests": 2}}) == [
        (
            'model_limits: {"requests_per_minute": 6, "concurrent_requests": 2}',
            'model_limits: {"requests_per_minute": 5, "concurrent_requests": 2}',
        )
    ]
    for outcome in (permitted(), Outcome(Permit(model=Model("m", "e", "s")), GRANT.endpoint, GRANT, b"{}")):
        ((_, got),) = found(outcome, permit={"model_limits": {"requests_per_minute": 6}})
        assert got == "model_limits: {}"


def test_whose_limits_they_are_is_compared() -> None:
    assert found(permitted(), permit={"each": "client"}) == [("each: client", "each: subject")]


def test_deadlines_are_compared_as_durations_and_as_a_whole() -> None:
    assert found(permitted(), permit={"deadlines": {"first_byte": "5m", "total": "30m"}}) == []
    ((expected, got),) = found(permitted(), permit={"deadlines": {"first_byte": "5m"}})
    assert (expected, got) == ('deadlines: {"first_byte": 300}', 'deadlines: {"first_byte": 300, "total": 1800}')


def test_a_long_value_is_shown_in_part() -> None:
    ((_, got),) = found(permitted({"a": "x" * 5000}), permit={"sent": {"a": "y"}})
    assert len(got) < 200
    assert got.endswith("…")


def test_a_permit_that_has_no_grant_promises_nothing_of_limits() -> None:
    assert found(Outcome(Permit()), permit={"each": "client"}) == []
