"""Reports about what a body means on each API, at the stage of the bodies: one test for each.

The other reports of that stage are where their API is: ``test_anthropic_sdk``, ``test_texts``, ``test_reports_body``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

from tests.e2e.asking import refused
from tests.e2e.raw_http import ask, request
from tests.e2e.site import CHAT, HI, KEYS, MODELS, REAL_MODEL, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.raw_http import Answer
    from tests.e2e.site import Site

KEY, VISITOR = KEYS["KEY-ABC"], KEYS["KEY-ABCD"]
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
TURNS = HI["messages"]
OFF, ON = {"enable_thinking": False}, {"enable_thinking": True}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": TURNS},
    RESPONSES: {"model": "m", "input": "hi"},
    MESSAGES: {"model": "m", "max_tokens": 8, "messages": TURNS},
    "/v1/completions": {"model": "m", "prompt": "hi"},
    "/v1/embeddings": {"model": "embed", "input": "hi"},
    "/v1/rerank": {"model": "embed", "query": "hi", "documents": ["ho"]},
    "/v1/score": {"model": "embed", "queries": "hi", "documents": ["ho"]},
}
ADDED = {"max_completion_tokens", "max_output_tokens", "max_tokens", "chat_template_kwargs", "cache_salt", "store"}
TEXTUAL = (CHAT, RESPONSES, MESSAGES)
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def playing(script: str) -> dict[str, Any]:
    """Make a body ask the engine that does as told."""
    return {"model": "raw", "messages": [{"role": "user", "content": f"script:{script}"}]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a gateway with every API and models that differ in their switches."""
    with running(tmp_path_factory.mktemp("what"), policies=("reports.yaml", "lenient.yaml")) as one:
        yield one


def post(site: Site, target: str, body: object, key: str = KEY) -> Answer:
    return site.ask(site.request(target, token=key, body=body))


def sent(site: Site, target: str, **fields: object) -> dict[str, Any]:
    """Ask for what must go through, and give the body that reached the engine."""
    before = len(site.reached())
    answer = post(site, target, BODIES[target] | fields)
    assert answer.status == 200, answer.body
    (seen,) = site.reached()[before:]
    value: dict[str, Any] = seen.json
    return value


def test_path_08_a_model_whose_name_has_a_slash_has_one_path(site: Site) -> None:
    answer = site.ask(site.request(f"{MODELS}/org/name", token=KEY))
    assert (answer.status, answer.json["id"]) == (200, "org/name")
    assert answer.json["max_model_len"]
    for path in ("org%2Fname", "org%2fname", "org//name", "org/name/", "org", "name", "org/name/../../sleep", "nobody"):
        refused(site, site.request(f"{MODELS}/{path}", token=KEY))
        refused(site, site.request(f"{MODELS}/{path}", "POST", token=KEY, body={}))


def test_path_08_where_no_model_is_opened_there_is_none(site: Site) -> None:
    host = f"{site.inside[0]}:{site.inside[1]}"
    headers = {"Authorization": f"Bearer {KEYS['KEY-INSIDE']}"}
    for path in ("gpt-4.1", "m", "org/name"):
        answer = ask(site.inside, request(f"{MODELS}/{path}", host, headers=headers))
        assert (answer.status, answer.code) == (404, "no-such-endpoint")


def test_thinking_06_effort_is_never_contradicted_and_a_wish_that_would_be_ignored_sets_the_switch(site: Site) -> None:
    assert "chat_template_kwargs" not in sent(site, CHAT, reasoning_effort="high")
    assert sent(site, CHAT, reasoning_effort="none")["chat_template_kwargs"] == OFF
    both = sent(site, CHAT, reasoning_effort="high", chat_template_kwargs=OFF)
    assert (both["reasoning_effort"], both["chat_template_kwargs"]) == ("high", OFF)
    body = sent(site, RESPONSES, reasoning_effort="high")
    assert body["chat_template_kwargs"] == OFF
    assert "reasoning_effort" not in body
    site.engine.state.reasoning_parser = True  # without one, vLLM refuses a budget
    try:
        body = sent(site, MESSAGES, max_tokens=2048, thinking={"type": "enabled", "budget_tokens": 1024})
    finally:
        site.engine.state.reasoning_parser = False
    assert body["chat_template_kwargs"] == ON


@pytest.mark.parametrize("target", BODIES)
def test_thinking_10_each_api_gets_the_switch_that_it_has_and_nothing_else(site: Site, target: str) -> None:
    body = sent(site, target)
    added = body.keys() - BODIES[target].keys()
    assert added <= ADDED
    assert body.get("chat_template_kwargs") == (OFF if target in TEXTUAL else None)
    given = {name: value for name, value in BODIES[target].items() if name not in {"model", "max_tokens"}}
    assert given.items() <= body.items()
    assert body["model"] == REAL_MODEL


def test_thinking_12_no_model_is_treated_as_another_however_they_come_together(site: Site) -> None:
    before = len(site.reached())

    def chat(number: int) -> int:
        turns = [{"role": "user", "content": f"{number}"}]
        return post(site, CHAT, {"model": ("m", "org/name")[number % 2], "messages": turns}).status

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(chat, range(100))) == [200] * 100
    bodies = {int(seen.json["messages"][0]["content"]): seen.json for seen in site.reached()[before:]}
    assert bodies.keys() == set(range(100))
    for number, body in bodies.items():
        assert body.get("chat_template_kwargs") == (None if number % 2 else OFF)


@pytest.mark.parametrize("target", TEXTUAL)
@pytest.mark.parametrize("stream", [False, True])
def test_routing_01_an_answer_names_the_model_as_the_engine_does(site: Site, target: str, *, stream: bool) -> None:
    answer = post(site, target, BODIES[target] | {"stream": stream})
    assert answer.status == 200
    assert answer.body.count(b'"model":"%b"' % REAL_MODEL.encode()) >= 1
    assert b'"model":"m"' not in answer.body.replace(b" ", b"")


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    "status, code, changes",
    [
        (400, "parameter-not-accepted", {"priority": 1}),
        (404, "model-not-permitted", {"model": "nobody"}),
        (413, "body-too-large", {"messages": [{"role": "user", "content": "x" * 1024 * 1024}]}),
        (502, "engine-error", playing("broken")),
        (503, "engine-overloaded", playing("overloaded")),
        (504, "engine-timeout", playing("never") | {"stream": True}),
    ],
)
def test_errors_01_an_error_has_the_shape_of_its_api_and_the_sdks_read_it(
    site: Site, target: str, status: int, code: str, changes: dict[str, Any]
) -> None:
    body = BODIES[target] | changes
    error = shaped(post(site, target, body), target, status, code)
    url = f"http://{site.host}"
    if target == CHAT:
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
            pytest.raises(openai.APIStatusError) as caught,
        ):
            client.post(CHAT.removeprefix("/v1"), body=body, cast_to=object)
        assert (caught.value.status_code, caught.value.code) == (status, code)
        assert error["message"] in caught.value.message
    else:
        with (
            anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as asked,
            pytest.raises(anthropic.APIStatusError) as seen,
        ):
            asked.post(MESSAGES, body=body, cast_to=object)
        assert seen.value.status_code == status
        assert error["message"] in seen.value.message


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_errors_01_what_is_refused_before_the_body_is_read_has_it_too(site: Site, target: str) -> None:
    whole = BODIES[target]
    shaped(post(site, target, whole, "wrong"), target, 401, "credential-invalid")
    shaped(post(site, target, whole, VISITOR), target, 403, "endpoint-not-granted")
    shaped(site.ask(site.request(target, "GET", token=KEY)), target, 405, "method-not-allowed")
    plain = site.request(target, token=KEY, body=whole).replace(b"application/json", b"text/plain")
    shaped(site.ask(plain), target, 415, "media-type-not-accepted")
    shaped(post(site, f"{target}/x", {}), CHAT, 404, "no-such-endpoint")


def shaped(answer: Answer, target: str, status: int, code: str) -> dict[str, Any]:
    """See that an error is of the shape of its API; give what it says."""
    assert (answer.status, answer.value("content-type")) == (status, "application/json")
    error: dict[str, Any] = answer.json["error"]
    assert (error["code"], bool(error["message"])) == (code, True)
    if target == MESSAGES:
        assert answer.json.keys() == {"type", "error", "request_id"}
        assert (answer.json["type"], answer.json["request_id"]) == ("error", answer.value("x-request-id"))
        assert error.keys() == {"type", "message", "code"}
        assert error["type"] == TYPES[status]
    else:
        assert answer.json.keys() == {"error"}
        assert error.keys() == {"message", "type", "param", "code"}
    return error
