from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.openai_models import ServedModel
from gateway.inquiry import Reply
from gateway.policy.model import Model
from gateway.review.diagnosis import Verdict
from gateway.review.engine_api_findings import aliases, media, media_hosts, models, names, open_doors, version
from tests.policy.planes import plane
from tests.review.patients import KEYLESS, REFUSED, reply

MAIN = ("main", "GATEWAY_ENGINES__MAIN")
LOCAL = Model("local", "main", "local", most_tokens=4096)
SERVED = {"local": ServedModel(0, 8192)}


def test_a_list_of_models_is_read() -> None:
    problem, served = models(*MAIN, reply({"data": [{"id": "local", "max_model_len": 8192}]}), has_key=True)
    assert (problem, served) == (None, SERVED)


@pytest.mark.parametrize(
    "answer, has_key, saw, do",
    [
        (REFUSED, True, "/v1/models: connection refused", "GATEWAY_ENGINES__MAIN__URLS"),
        (Reply(401), True, "refuses the gateway's key (401)", "GATEWAY_ENGINES__MAIN__API_KEY must equal"),
        (Reply(403), False, "demands a key, and the gateway has none (403)", "set GATEWAY_ENGINES__MAIN__API_KEY_FILE"),
        (KEYLESS, True, "/v1/models says 404, and no list of models", "is it vLLM's OpenAI server?"),
        (Reply(200, {}, b"<html>"), True, "/v1/models says 200, and no list of models", "GATEWAY_ENGINES__MAIN__URLS"),
    ],
)
def test_without_a_list_it_is_told_why(answer: Reply, has_key: bool, saw: str, do: str) -> None:  # noqa: FBT001  (a row)
    problem, served = models(*MAIN, answer, has_key=has_key)
    assert problem is not None
    assert (problem.verdict, problem.saw, served) == (Verdict.BROKEN, saw, {})
    assert do in problem.do


def test_what_is_served_as_promised_is_not_worth_a_line() -> None:
    assert list(names("main", [LOCAL], SERVED, frozenset(SERVED))) == []
    assert list(aliases("main", [LOCAL], SERVED)) == []


def test_a_missing_name_is_broken_and_the_flag_has_all_of_them() -> None:
    other = replace(LOCAL, alias="other", served_as="org/other")
    (found,) = names("main", [LOCAL, other], SERVED, frozenset(SERVED))
    assert found.verdict is Verdict.BROKEN
    assert found.saw == "does not serve 'org/other' (model 'other' of the policy); it serves local"
    assert "--served-model-name local org/other" in found.do


def test_a_missing_name_that_another_replica_serves_is_a_warning() -> None:
    (found,) = names("main", [LOCAL], {}, frozenset({"local"}))
    assert found.verdict is Verdict.WARNING
    assert found.saw.endswith("it serves nothing")


def test_routing_01_a_name_that_is_no_alias_is_recommended_to_be_one() -> None:
    fast = replace(LOCAL, alias="fast", served_as="org/real")
    served = {"org/real": ServedModel(), "local": ServedModel()}
    (found,) = aliases("main", [fast, replace(fast, alias="quick"), LOCAL], served)
    assert found.verdict is Verdict.WARNING
    assert found.saw == "answers to callers of 'fast' and 'quick' name 'org/real' as their model"
    assert "--served-model-name fast" in found.do
    assert list(aliases("main", [fast], {})) == []


@pytest.mark.parametrize("length, warned", [(8192, False), (4097, False), (4096, True), (None, False)])
def test_answers_that_cannot_fit_the_context_are_warned_of(length: int | None, *, warned: bool) -> None:
    found = list(names("main", [LOCAL], {"local": ServedModel(0, length)}, frozenset({"local"})))
    assert bool(found) is warned
    assert all("lower most_tokens of 'local'" in one.do for one in found)


@pytest.mark.parametrize(
    "told, verdict, saw",
    [
        ({"version": "0.32.0"}, Verdict.OK, "vLLM 0.32.0 serves local (context 8192)"),
        ({"version": "0.33.1.dev"}, Verdict.OK, "vLLM 0.33.1.dev serves local (context 8192)"),
        ({"version": "1.0"}, Verdict.OK, "vLLM 1.0 serves local (context 8192)"),
        ({"version": "0.11.0"}, Verdict.WARNING, "vLLM 0.11.0 has known weaknesses that later releases have not"),
        ({}, Verdict.OK, "vLLM of an unknown version serves local (context 8192)"),
        ({"version": 7}, Verdict.OK, "vLLM of an unknown version serves local (context 8192)"),
    ],
)
def test_the_release_is_told_and_an_old_one_warned_of(told: object, verdict: Verdict, saw: str) -> None:
    found = version("main", reply(told), SERVED)
    assert (found.verdict, found.saw) == (verdict, saw)


def test_an_engine_without_models_or_lengths_is_told_as_it_is() -> None:
    assert version("main", KEYLESS, {}).saw == "vLLM of an unknown version serves no model"
    assert version("main", KEYLESS, {"a": ServedModel()}).saw.endswith("serves a")


def test_an_engine_that_opens_nothing_is_not_worth_a_line() -> None:
    assert list(open_doors(*MAIN, keyless=Reply(401), sleeping=KEYLESS, adapters=KEYLESS)) == []


@pytest.mark.parametrize(
    "door, do",
    [
        ({"keyless": reply({"data": []})}, "VLLM_API_KEY"),
        ({"sleeping": reply({"is_sleeping": False})}, "VLLM_SERVER_DEV_MODE"),
        ({"adapters": Reply(405)}, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
    ],
)
def test_each_open_door_is_warned_of(door: dict[str, Reply], do: str) -> None:
    closed: dict[str, Any] = {"keyless": Reply(401), "sleeping": KEYLESS, "adapters": KEYLESS}
    (found,) = open_doors(*MAIN, **{**closed, **door})
    assert found.verdict is Verdict.WARNING
    assert do in found.do


def test_hosts_of_media_are_those_of_the_planes_that_use_the_engine() -> None:
    opened = plane(media_hosts=frozenset({"b.example", "a.example"}))
    assert media_hosts([opened, plane()], "main") == ["a.example", "b.example"]
    assert media_hosts([opened], "elsewhere") == []


def info(redirects: object, domains: object) -> Reply:
    config = {"model_config": {"allowed_media_domains": domains}}
    return reply({"vllm_env": {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": redirects}, "vllm_config": config})


@pytest.mark.parametrize(
    "seen, verdict, saw",
    [
        (None, Verdict.WARNING, "cannot be seen from here"),
        (KEYLESS, Verdict.WARNING, "cannot be seen from here"),
        (reply({"vllm_config": "a text"}), Verdict.WARNING, "cannot be seen from here"),
        (info(redirects=True, domains=["a.example"]), Verdict.WARNING, "it follows redirects"),
        (info(redirects=False, domains=None), Verdict.WARNING, "hosts that the policy does not name"),
        (info(redirects=False, domains=[]), Verdict.WARNING, "hosts that the policy does not name"),
        (info(redirects=False, domains=["a.example", "evil.example"]), Verdict.WARNING, "does not name"),
        (info(redirects=False, domains=["a.example"]), Verdict.OK, "from hosts of the policy alone"),
    ],
)
def test_body_02_an_engine_that_fetches_media_is_told_both_flags(
    seen: Reply | None, verdict: Verdict, saw: str
) -> None:
    found = media("main", ["a.example", "b.example"], seen)
    assert found.verdict is verdict
    assert saw in found.saw
    flags = "--allowed-media-domains a.example b.example and VLLM_MEDIA_URL_ALLOW_REDIRECTS=0"
    assert (flags in found.do) is (verdict is Verdict.WARNING)
