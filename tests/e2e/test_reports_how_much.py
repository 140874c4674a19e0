"""The reports about limits: one test for each, as in ``test_reports``; and the two scenarios of the attacks."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import orjson
import pytest

from gateway.settings import SettingsError, load_settings
from tests.e2e.counting import Counted, counting
from tests.e2e.raw_http import NotHttp, ask, request
from tests.e2e.site import HI, MODELS, wait
from tests.simulators.raw_engine import TOKENS, USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.raw_http import Answer

CORPUS = Path(__file__).parents[1] / "corpus"
DONE = b"data: [DONE]\n\n"
MESSAGES: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAM: dict[str, Any] = {"stream": True, "max_tokens": 5}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    """Run a site with small limits, one for each person."""
    with counting(tmp_path_factory.mktemp("counted")) as one:
        yield one


def test_every_report_and_attack_of_the_stage_has_a_test() -> None:
    cases = [
        *orjson.loads((CORPUS / "reports.json").read_bytes()),
        *orjson.loads((CORPUS / "attacks.json").read_bytes()),
    ]
    wanted = {case["id"].lower().replace("-", "_") for case in cases if case["stage"] == "how-much"}
    assert len(wanted) == 14
    assert not [one for one in wanted if not any(name.startswith(f"test_{one}_") for name in globals())]


def refused(answer: Answer, code: str) -> int:
    """Check a refusal for a limit; give its wait in seconds."""
    assert (answer.status, answer.code) == (429, code)
    assert answer.json["error"]["type"] == "rate_limit_error"
    assert f'details="{code}"' in (answer.value("proxy-status") or "")
    return int(answer.value("retry-after") or "")


def usage_of(counted: Counted, answer: Answer) -> Any:  # noqa: ANN401  (JSON)
    """Give the count in the record of an answer."""
    return counted.site.record(answer)["usage"]


def test_stream_16_a_stream_is_searched_as_bytes_and_passed_as_it_is(counted: Counted) -> None:
    answer = counted.person("few").play("bytes-one-by-one", stream_options={"include_usage": True})
    assert answer.body == TOKENS + USAGE + DONE
    assert "北京🌍" in answer.body.decode()
    assert usage_of(counted, answer) == {"prompt": 14, "completion": 10, "reasoning": None}


@pytest.mark.parametrize("engine", ["main", "raw"])
def test_stream_20_the_event_of_the_count_is_for_who_asked_for_it(counted: Counted, engine: str) -> None:
    person = counted.person("few")
    body = {**HI, **STREAM} if engine == "main" else person.script("bytes-one-by-one")
    for options, events in ((None, 0), ({"include_usage": False}, 0), ({"include_usage": True}, 1)):
        answer = person.ask({**body, **({"stream_options": options} if options else {})})
        assert answer.body.count(b'"choices":[]') == events
        assert answer.body.endswith(DONE)
        assert usage_of(counted, answer)["completion"] == (5 if engine == "main" else 10)


@pytest.mark.parametrize(
    "script", ["reset-before-the-answer", "half-a-head", "fin-mid-stream", "overloaded", "garbage"]
)
def test_limits_01_a_place_is_free_however_an_engine_fails(counted: Counted, script: str) -> None:
    person = counted.person("double")
    for _ in range(10):
        try:
            assert person.play(script).status in {200, 502, 503}
        except NotHttp:
            assert script == "fin-mid-stream"
    assert person.ask().status == 200
    assert places(counted) == 0


def test_limits_01_a_place_is_free_when_an_engine_is_too_late(counted: Counted) -> None:
    person = counted.person("single")
    assert person.play("never").status == 504
    with pytest.raises(NotHttp):
        person.play("stalls-before-the-first-byte")
    assert person.ask().status == 200


def places(counted: Counted) -> float:
    """Ask how many requests hold a place."""
    lines = [line for line in counted.site.metrics().splitlines() if line.startswith("gateway_requests_open{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_limits_03_what_is_refused_for_its_body_keeps_no_place_and_no_tokens(counted: Counted) -> None:
    for group in ("single", "tokens"):
        person = counted.person(group)
        assert person.ask(b"{").status == 400
        assert person.ask(model="unknown").status == 404
        assert person.ask(b'{"a":"' + b"x" * 70_000 + b'"}').status == 413
        assert person.ask(max_tokens="many").status == 400
        answer = person.ask(max_tokens=5)
        left = None if group == "single" else str(250 - 5 - estimate(counted))
        assert (answer.status, answer.value("x-ratelimit-remaining-tokens")) == (200, left)


def estimate(counted: Counted) -> int:
    """Give the estimate of the prompt of the last body that reached the engine."""
    return -(-len(counted.site.reached()[-1].body) // 4)


def test_limits_05_of_a_hundred_at_once_three_get_in(counted: Counted) -> None:
    person = counted.person("triple")
    engine = counted.site.engine.state
    engine.latency_s = 0.1
    data = person.request(max_tokens=16)
    answers: list[Answer] = []
    most = 0
    try:
        threads = [threading.Thread(target=lambda: answers.append(ask(counted.address, data))) for _ in range(100)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, len(engine.running))
            time.sleep(0.01)
    finally:
        engine.latency_s = 0
    codes = [answer.status for answer in answers]
    assert (codes.count(200), codes.count(429), most) == (3, 97, 3)
    assert {refused(answer, "over-concurrency") for answer in answers if answer.status == 429} == {1}


def test_limits_05_more_workers_than_the_ledger_knows_of_do_not_start() -> None:
    with pytest.raises(SettingsError, match="each process would grant the limits anew"):
        load_settings({"GATEWAY_LISTENERS__PUBLIC": "127.0.0.1:8080", "GATEWAY_WORKERS": "2"})


@pytest.mark.parametrize("stream", [True, False])
def test_a_place_is_free_for_the_next_request_on_the_same_connection(counted: Counted, *, stream: bool) -> None:
    """Also for one that has been sent already and waits behind the answer."""
    person = counted.person("single")
    data = person.request(stream=stream)
    with person.connect() as connection:
        for requests in (1, 1, 1, 4, 8):
            connection.send(data * requests)
            assert [connection.answer("POST").status for _ in range(requests)] == [200] * requests


def test_limits_07_who_hangs_up_early_pays_for_what_was_produced(counted: Counted) -> None:
    person, engine = counted.person("tokens"), counted.site.engine.state
    engine.latency_s, engine.tokens = 0.01, 100
    charged = 0
    produced = engine.generation_tokens
    try:
        for _ in range(20):
            with person.connect() as connection:
                connection.send(person.request(stream=True, max_tokens=60))
                if connection.head().status == 429:
                    break
                deltas = 0
                for _, part in connection.chunks():
                    deltas += part.count(b'"content":" ')
                    if deltas >= 20:
                        break
            wait(lambda: not engine.running, "the end of the engine's work")
            charged += 1
        else:
            pytest.fail("the budget did not run out")
    finally:
        engine.latency_s, engine.tokens = 0.0, 16
    assert 2 <= charged <= 6
    wait(lambda: places(counted) == 0, "the end")
    records = [orjson.loads(line) for line in counted.site.audit().splitlines()]
    left = [record["usage"] for record in records if record["outcome"] == "client-left"][-charged:]
    assert all(usage["estimated"] for usage in left)
    counted_here = sum(usage["completion"] for usage in left)
    assert 20 * charged <= counted_here <= engine.generation_tokens - produced <= counted_here + 3 * charged


def test_limits_09_every_endpoint_spends_from_one_budget(counted: Counted) -> None:
    person = counted.person("tokens")
    assert person.ask({"model": "e", "input": ["one two three " * 60]}, target="/v1/embeddings").status == 200
    for target, body in (
        ("/v1/chat/completions", {**HI, "max_tokens": 100}),
        ("/v1/completions", {"model": "m", "prompt": "hi", "max_tokens": 100}),
        ("/v1/responses", {"model": "m", "input": "hi", "max_output_tokens": 100}),
        ("/v1/messages", {**MESSAGES, "max_tokens": 100}),
        ("/v1/embeddings", {"model": "e", "input": ["one two three " * 60]}),
    ):
        assert refused(person.ask(body, target=target), "over-tokens") > 50
    listed = request(MODELS, person.host, headers={"Authorization": f"Bearer {person.token}"})
    assert ask(counted.address, listed).status == 200


def test_limits_11_counts_that_go_on_are_not_added_up(counted: Counted) -> None:
    person = counted.person("tokens")
    answer = person.play("continuous-count", max_tokens=20)
    assert usage_of(counted, answer) == {"prompt": 14, "completion": 10, "reasoning": None}
    later = person.play("continuous-count", max_tokens=20)
    assert int(later.value("x-ratelimit-remaining-tokens") or "") > 250 - 24 - 20 - 80


def test_limits_13_a_budget_is_the_verified_persons_whatever_else_is_said(counted: Counted) -> None:
    alice = counted.person("few")
    for _ in range(5):
        assert alice.ask().status == 200
    for fields in ({}, {"X-End-User": "bob"}, {"OpenAI-Organization": "x"}, {"X-Forwarded-For": "192.0.2.7"}):
        refused(alice.ask(user="bob", fields=fields), "over-rate")
    assert counted.person("few").ask().status == 200


def test_limits_17_every_429_says_when_and_an_sdk_comes_back_by_itself(counted: Counted) -> None:
    person = counted.person("few")
    waits = []
    for _ in range(7):
        answer = person.ask()
        if answer.status == 429:
            waits.append(refused(answer, "over-rate"))
    assert len(waits) == 2
    assert all(55 <= wait <= 60 for wait in waits)
    single = counted.person("single")
    url = f"http://{counted.address[0]}:{counted.address[1]}/v1"
    with openai.OpenAI(base_url=url, api_key=single.token, max_retries=2) as client, single.connect() as connection:
        connection.send(single.request(single.script("five-events")))
        assert connection.head().status == 200
        begun = time.monotonic()
        answer = client.chat.completions.create(**HI)
        assert answer.choices[0].message.content
        assert time.monotonic() - begun > 0.9, "it was refused once, and waited as told"
    records = [orjson.loads(line) for line in counted.site.audit().splitlines()]
    assert [one["reason"] for one in records if one["subject"] == single.subject].count("over-concurrency") >= 1


@pytest.mark.long
def test_limits_17_who_waits_exactly_as_told_is_let_in(counted: Counted) -> None:
    person = counted.person("few")
    answers = [person.ask() for _ in range(6)]
    time.sleep(refused(answers[-1], "over-rate"))
    assert person.ask().status == 200


def test_clients_06_only_streams_of_chat_and_completions_are_asked_for_their_count(counted: Counted) -> None:
    person = counted.person("tokens")
    person.ask({"model": "e", "input": "hi"}, target="/v1/embeddings")
    assert "stream_options" not in counted.site.reached()[-1].json
    person.ask(max_tokens=5, stream=False)
    assert "stream_options" not in counted.site.reached()[-1].json
    answer = person.ask({"model": "m", "input": "hi", "max_output_tokens": 5, "stream": True}, target="/v1/responses")
    assert "stream_options" not in counted.site.reached()[-1].json
    assert usage_of(counted, answer)["completion"] == 5
    answer = person.ask({**MESSAGES, **STREAM}, target="/v1/messages")
    assert "stream_options" not in counted.site.reached()[-1].json
    assert usage_of(counted, answer)["completion"] == 5
    for target, body in (("/v1/chat/completions", HI), ("/v1/completions", {"model": "m", "prompt": "hi"})):
        answer = person.ask({**body, **STREAM}, target=target)
        assert counted.site.reached()[-1].json["stream_options"] == {"include_usage": True}
        assert b'"choices":[]' not in answer.body
        assert usage_of(counted, answer)["completion"] == 5


def test_clients_16_counting_tokens_takes_none_and_needs_none(counted: Counted) -> None:
    person = counted.person("tokens")
    assert person.ask({"model": "e", "input": ["one two three " * 60]}, target="/v1/embeddings").status == 200
    assert refused(person.ask({**MESSAGES, "max_tokens": 100}, target="/v1/messages"), "over-tokens") > 50
    answer = person.ask(MESSAGES, target="/v1/messages/count_tokens")
    assert (answer.status, set(answer.json)) == (200, {"input_tokens", "context_management"})
    assert answer.value("x-ratelimit-limit-tokens") is None
    assert int(answer.value("x-ratelimit-remaining-requests") or "") < 100_000
    assert usage_of(counted, answer) is None


def test_limits_008_a_limit_is_the_persons_and_not_an_addresss(counted: Counted) -> None:
    person = counted.person("few")
    answers = [
        person.ask(fields={"X-Forwarded-For": f"192.0.2.{n}", "CF-Connecting-IP": f"198.51.100.{n}"}) for n in range(6)
    ]
    assert [answer.status for answer in answers] == [200] * 5 + [429]


def test_limits_009_names_do_not_run_into_each_other(counted: Counted) -> None:
    one, other = counted.person("few", "a|b"), counted.person("few", "a")
    for _ in range(5):
        assert one.ask().status == 200
    refused(one.ask(), "over-rate")
    assert other.ask().status == 200
    assert counted.person("few", "a|b ").ask().status == 200


def test_a_model_is_limited_for_all_its_callers_together_and_other_models_are_not(counted: Counted) -> None:
    first, second = counted.person("double"), counted.person("triple")
    assert [person.ask(model="s").status for person in (first, second, first)] == [200, 200, 200]
    answer = second.ask(model="s")
    assert 50 < refused(answer, "over-rate") <= 60
    assert "the limit of the model `s` for all its callers is 3 in any minute" in answer.json["error"]["message"]
    assert answer.value("x-ratelimit-remaining-requests") == "99998"
    assert second.ask(model="m").status == 200
    assert counted.site.record(answer)["model"] == "s"
