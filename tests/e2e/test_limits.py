"""Limits as partners meet them, where the reports leave off: what a call may cost, and what a refusal says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.e2e.counting import Counted, counting
from tests.e2e.site import HI
from tests.simulators.raw_engine import DONE, LAST, USAGE, chunk, stream, token, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.raw_http import Answer
    from tests.simulators.raw_engine import Step

MINUTE_TOKENS, DAY_TOKENS = 5000, 10_000
COMPLETIONS = "/v1/completions"
ENGINE_ERROR = chunk(b'data: {"error":{"message":"out of memory","code":500}}\n\n')
PLAYED: dict[str, tuple[Step, ...]] = {
    "error-first": (stream(), ENGINE_ERROR, DONE, LAST),
    "no-numbers": (whole(b'{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":1e9}}'),),
    "no-count": (stream(), token(""), token("a"), token("b"), DONE, LAST),
    "count-with-an-id": (stream(), token(""), token("a"), chunk(b"id: 7\n" + USAGE), DONE, LAST),
}
CHARGED: dict[str, int | None] = {"error-first": None, "no-numbers": 50, "no-count": 2, "count-with-an-id": 10}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    """Run a site with small limits, one for each person, whose engine plays more than usual."""
    with counting(tmp_path_factory.mktemp("limits")) as one:
        one.site.raw.scripts = {**one.site.raw.scripts, **PLAYED}
        yield one


def tokens(answer: Answer) -> tuple[str | None, ...]:
    """Give what an answer says about tokens."""
    return tuple(answer.value(f"x-ratelimit-{name}-tokens") for name in ("limit", "remaining", "reset"))


def test_each_of_several_prompts_is_reserved(counted: Counted) -> None:
    person = counted.person("both")
    for prompt, most in (("hi", 100), (["hi"] * 20, 2000)):
        answer = person.ask({"model": "m", "prompt": prompt, "max_tokens": 100}, target=COMPLETIONS)
        used = MINUTE_TOKENS - int(answer.value("x-ratelimit-remaining-tokens") or "")
        assert (answer.status, most < used < most + 200) == (200, True)


@pytest.mark.parametrize("reason", ["over-concurrency", "over-rate"])
def test_whoever_is_refused_at_the_door_is_told_what_is_left_of_tokens(counted: Counted, reason: str) -> None:
    person = counted.person("both")
    with person.connect() as connection:
        connection.send(person.request(person.script("five-events")))
        assert connection.head().status == 200
        answer = person.ask()
        if reason == "over-rate":
            answer = person.ask()
        assert (answer.status, answer.code) == (429, reason)
    limit, left, reset = tokens(answer)
    assert (limit, reset) in {("5000", "1m0s"), ("5000", "59s")}
    assert MINUTE_TOKENS - 200 < int(left or "") < MINUTE_TOKENS
    assert [part.partition(";")[0] for part in (answer.value("ratelimit") or "").split(", ")] == [
        '"requests"', '"tokens"', '"tokens-per-day"',
    ]  # fmt: skip


def test_a_wait_for_a_model_is_none_that_ends_in_the_clients_own_full_minute(counted: Counted) -> None:
    first, second = counted.person("both"), counted.person("both")
    assert [person.ask(model="t", max_tokens=1).status for person in (first, first, second, second)] == [200] * 3 + [
        429
    ]
    time.sleep(2.1)
    late = counted.person("both")
    assert late.ask(model="t").status == 429
    answer = late.ask(model="t")
    assert (answer.status, answer.code, answer.value("retry-after")) == (429, "over-rate", "60")


@pytest.mark.parametrize("script", PLAYED)
def test_what_is_charged_where_an_engine_counts_badly_or_not_at_all(counted: Counted, script: str) -> None:
    person = counted.person("both")
    answer = person.play(script, stream=script != "no-numbers", max_tokens=50)
    usage = counted.site.record(answer)["usage"]
    assert (usage and usage["completion"]) == CHARGED[script]
    assert b'"usage"' not in answer.body or script == "no-numbers"
    left = int(person.ask(max_tokens=1).value("x-ratelimit-remaining-tokens") or "")
    spent = 0 if usage is None else usage["prompt"] + usage["completion"]
    assert MINUTE_TOKENS - spent - 60 < left < MINUTE_TOKENS - spent


def test_an_sdk_is_told_the_reason_and_the_wait(counted: Counted) -> None:
    person = counted.person("both")
    url = f"http://{person.host}/v1"
    with openai.OpenAI(base_url=url, api_key=person.token, max_retries=0) as client:
        answers: list[Any] = [client.chat.completions.with_raw_response.create(**HI) for _ in range(2)]
        assert [one.headers["x-ratelimit-remaining-requests"] for one in answers] == ["1", "0"]
        with pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(**HI, stream=True)
    assert caught.value.code == "over-rate"
    assert 58 <= int(caught.value.response.headers["retry-after"]) <= 60


def test_a_place_is_free_for_the_next_request_however_the_answer_before_it_came(counted: Counted) -> None:
    """An engine that closes each connection has the gateway wait for a new one, and so walk on in a task."""
    person = counted.person("single")
    data = person.request(person.script("until-close", stream=False))
    with person.connect() as connection:
        connection.send(data * 3)
        assert [connection.answer("POST").status for _ in range(3)] == [200] * 3
