from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.inquiry import Failure, Reply
from gateway.policy.model import ParameterRules, ThinkingRule
from gateway.review.diagnosis import Verdict
from gateway.review.gateway_findings import FORBIDDEN, listener, made_here, readiness, reason_of, refusals, visited
from gateway.review.surroundings import ListenerAt
from tests.policy.planes import plane
from tests.review.patients import REFUSED, SILENT, chat, gateway, ours, reply

AT = ListenerAt("127.0.0.1:8080", "GATEWAY_LISTENERS__PUBLIC", gateway())
PARTNER = replace(plane(), digest="abc", source="partner.yaml")


@pytest.mark.parametrize(
    "line, made",
    [
        ('vllm-gateway; error=http_request_denied; details="x"', True),
        ("vllm-gateway", True),
        ("another; error=x", False),
        ("vllm-gateway2", False),
        ("", False),
    ],
)
def test_an_answer_is_the_gateways_where_proxy_status_names_it(line: str, *, made: bool) -> None:
    assert made_here(Reply(404, {"proxy-status": line})) is made


def test_the_reason_of_an_answer_is_read_and_an_answer_without_one_has_none() -> None:
    assert reason_of(ours(401, "credential-missing")) == "credential-missing"
    assert reason_of(Reply(200)) == ""


@pytest.mark.parametrize(
    "answer, verdict, saw, do",
    [
        (ours(401, "credential-missing"), Verdict.OK, "answers 401 credential-missing to nobody", ""),
        (REFUSED, Verdict.BROKEN, "connection refused", "is 'vllm-gateway serve' running"),
        (Reply(failure=Failure.TLS), Verdict.BROKEN, "TLS failed", "GATEWAY_TLS__PUBLIC__CERT"),
        (SILENT, Verdict.BROKEN, "connected, and no answer in time", "is it the gateway that listens there"),
        (Reply(200), Verdict.BROKEN, "200, and not from the gateway", "ss -ltnp"),
        (ours(421, "host-not-served"), Verdict.BROKEN, "does not serve the host name", "GATEWAY_HOSTS__PUBLIC"),
    ],
)
def test_a_listener_is_known_by_what_it_says_to_nobody(answer: Reply, verdict: Verdict, saw: str, do: str) -> None:
    found = listener("partner", AT, answer)
    assert found.verdict is verdict
    assert found.saw.startswith(saw)
    assert do in found.do


def test_every_path_must_be_refused_by_the_gateway_itself() -> None:
    well = dict.fromkeys(FORBIDDEN, ours(404, "no-such-endpoint"))
    (found,) = refusals("partner", well)
    assert (found.verdict, found.saw) == (
        Verdict.OK,
        f"refuses by itself all {len(FORBIDDEN)} paths that only an engine would answer",
    )
    broken = {**well, ("POST", "/sleep"): Reply(200), ("GET", "/metrics"): REFUSED, ("POST", "/wake_up"): ours(200, "")}
    assert [(one.verdict, one.saw) for one in refusals("partner", broken)] == [
        (Verdict.BROKEN, "POST /sleep: 200, and not from the gateway"),
        (Verdict.BROKEN, "POST /wake_up: 200, and not from the gateway"),
        (Verdict.BROKEN, "GET /metrics: connection refused"),
    ]


def ready(*, is_ready: bool = True, problems: object = (), **planes: Any) -> Reply:  # noqa: ANN401  (JSON values)
    return reply({"ready": is_ready, "planes": planes, "problems": problems}, 200 if is_ready else 503)


WELL = {"policy": "abc", "callers": {"corp": {"ready": True}}, "engines": {"main": {"ready": True}}}


def test_a_gateway_that_is_ready_with_these_policies_has_one_line() -> None:
    assert [one.saw for one in readiness("ops", ready(partner=WELL), [PARTNER])] == ["is ready"]


@pytest.mark.parametrize(
    "answer, saw",
    [
        (REFUSED, "connection refused"),
        (reply({"error": "host"}, 421), "/readyz says 421, in no form of the gateway's"),
        (reply({"ready": True}), "/readyz says 200, in no form of the gateway's"),
    ],
)
def test_without_an_answer_of_its_form_readiness_is_broken(answer: Reply, saw: str) -> None:
    (found,) = readiness("ops", answer, [PARTNER])
    assert (found.verdict, found.saw) == (Verdict.BROKEN, saw)


def test_what_the_process_knows_is_held_against_the_files() -> None:
    other = {**WELL, "policy": "another"}
    _, found = readiness("ops", ready(partner=other), [PARTNER])
    assert found.verdict is Verdict.WARNING
    assert found.saw == "the running gateway has another text of the policy 'partner' than partner.yaml"
    assert "policies not reloaded" in found.do
    _, found = readiness("ops", ready(), [PARTNER])
    assert found.saw == "the running gateway has no plane 'partner'"


def test_what_it_holds_for_not_ready_is_told_but_not_what_is_known_already() -> None:
    value = {
        **WELL,
        "callers": {"corp": {"ready": False, "detail": "no keys of the issuer yet"}},
        "engines": {"main": {"ready": False, "state": "requests\nhang"}, "other": "x"},
    }
    answer = ready(is_ready=False, problems=["draining"], partner=value)
    assert [one.saw for one in readiness("ops", answer, [PARTNER])] == [
        "draining",
        "plane partner: caller corp is not ready: no keys of the issuer yet",
        "plane partner: engine main is not ready: requests hang",
    ]
    assert [one.saw for one in readiness("ops", answer, [PARTNER], {"main", "corp"})] == ["draining"]


@pytest.mark.parametrize("value", [{"policy": "abc"}, {"policy": "abc", "callers": [], "engines": 7}])
def test_a_plane_of_another_form_is_read_without_stumbling(value: object) -> None:
    assert [one.verdict for one in readiness("ops", ready(problems=7, partner=value), [PARTNER])] == [Verdict.OK]


@pytest.mark.parametrize(
    "answer, verdict, saw, do",
    [
        (
            replace(chat(), fields={"x-request-id": "ab"}, seconds=0.2),
            Verdict.OK,
            "answered in 200 ms (request ab)",
            "",
        ),
        (chat(reasoning="Well"), Verdict.WARNING, "answered, and thought although nobody asked it to", "the model's"),
        (ours(401, "credential-invalid"), Verdict.BROKEN, "401 credential-invalid (request 0", "'detail'"),
        (ours(429, "over-rate"), Verdict.WARNING, "429 over-rate", "usage"),
        (ours(502, "engine-unavailable"), Verdict.BROKEN, "502 engine-unavailable", "'reason' and 'detail'"),
        (Reply(502, {}, b"<html>"), Verdict.BROKEN, "502 None (request without an id)", "'reason'"),
        (SILENT, Verdict.BROKEN, "connected, and no answer in time", "--within"),
    ],
)
def test_one_real_request_tells_what_a_caller_would_see(answer: Reply, verdict: Verdict, saw: str, do: str) -> None:
    found = visited("partner", PARTNER, "openai-chat", answer)
    assert found.verdict is verdict
    assert found.saw.startswith(saw)
    assert do in found.do


def test_thought_is_no_news_where_the_policy_enables_it() -> None:
    thinking = plane(ParameterRules(frozenset(), thinking=ThinkingRule(default_enabled=True)))
    assert visited("partner", thinking, "openai-chat", chat(reasoning="Well")).verdict is Verdict.OK
