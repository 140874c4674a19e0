from __future__ import annotations

import pytest

from gateway.policy.model import Deadlines, Model
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, Broken, assert_refused, compiled, edited, problems

SECOND = "  second:\n    allow: {allow}\n    dialect: {dialect}\n"


def second(allow: str, dialect: str, more: str = "") -> tuple[str, str]:
    """Give an edit of the partner example that adds an endpoint before the others."""
    return "endpoints:\n", f"endpoints:\n  second:\n    allow: {allow}\n    dialect: {dialect}\n{more}"


REFUSED = [
    Broken(
        *second("GET /v1/models", "openai-models"),
        "allow: GET /v1/models\n    dialect: openai-models    ",
        "is the endpoint `second` already",
    ),
    Broken(
        *second("GET /v1/models/local", "openai-models"),
        "allow: GET /v1/models/{model}",
        "GET /v1/models/local is the endpoint",
    ),
    Broken(
        *second("GET /v1/models/{model}", "openai-model"),
        "allow: GET /v1/models/{model}\n    dialect: openai-model               #",
        "is the endpoint `second` already",
    ),
    Broken(
        "POST /v1/chat/completions", "GET /v1/chat/completions", "allow: GET /v1/chat", "is asked by POST, not by GET"
    ),
    Broken("GET /v1/models\n", "POST /v1/models\n", "allow: POST /v1/models", "is asked by GET or HEAD, not by POST"),
    Broken("    body_limit: 2MiB\n", "", "  chat:\n", "`body_limit` is missing"),
    Broken(
        "dialect: openai-models ", "body_limit: 1KiB\n    dialect: openai-models ", "body_limit: 1KiB", "has no body"
    ),
    Broken(
        "    body_limit: 2MiB", "    body_limit: 2MiB\n    engine: main", "engine: main\n  emb", "is that of the model"
    ),
    Broken("    engine: main\n", "", "  sleep:\n", "`engine` is missing", CONTROL),
    Broken("GET /v1/models/{model}", "GET /v1/model", "allow: GET /v1/model\n", "ends in /{model}"),
    Broken("GET /v1/models\n", "GET /v1/models/{model}\n", "allow: GET /v1/models/{model}", "ends in /{model}"),
    Broken('    query: {level: ["1", "2"]}\n', "", "  sleep:\n", "the level is always said", CONTROL),
    Broken('{level: ["1", "2"]}', '{level: ["0", "1"]}', "query:", "the values 1 and 2", CONTROL),
    Broken('{level: ["1", "2"]}', '{level: ["1"], mode: [abort]}', "query:", "and nothing else", CONTROL),
    Broken(
        "dialect: engine-wake",
        "query: {a: [b]}\n    dialect: engine-wake",
        "query: {a: [b]}",
        "takes no query",
        CONTROL,
    ),
    Broken(
        "dialect: openai-models", "query: {a: [b]}\n    dialect: openai-models", "query: {a: [b]}", "takes no query"
    ),
    Broken(
        "allow: POST /engines/main/sleep",
        "allow: GET /engines/main/sleep",
        "allow: GET /engines/main/sleep",
        "by POST",
        CONTROL,
    ),
    Broken(
        "limits:\n  orch",
        "  again: {allow: GET /again, dialect: engine-metrics, engine: main}\nlimits:\n  orch",
        "  again:",
        "`metrics` does the same to the same engine",
        CONTROL,
    ),
    Broken(
        *second("GET /.well-known/oauth-protected-resource", "openai-models"), "allow: GET /.well-known", "own metadata"
    ),
    Broken("card: BAAI/bge-m3", "thinking_switch: none", "  embed:    {", "nothing in it thinks"),
    Broken(
        "  embed:  ",
        "  lo-cal: {engine: a, served_as: a}\n  lo_cal: {engine: a, served_as: a}\n  embed:  ",
        "  lo_cal:",
        "differ only in - and _",
    ),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words)
def test_an_endpoint_that_says_too_little_too_much_or_the_same_is_refused(broken: Broken) -> None:
    assert_refused(broken)


def test_a_placeholder_without_aliases_is_refused() -> None:
    assert_refused(
        Broken(
            "limits:\n  orch",
            "  model: {allow: 'GET /v1/models/{model}', dialect: openai-model}\nlimits:\n  orch",
            "  model:",
            "and it has none",
            CONTROL,
        )
    )


def test_each_alias_has_one_exact_path() -> None:
    policy = compiled(PARTNER, ("  embed:    {", "  org/name: {engine: a, served_as: a}\n  embed:    {"))
    paths = {path: methods["GET"].model for path, methods in policy.plane.endpoints.items() if "GET" in methods}
    assert paths == {
        b"/v1/models": None,
        b"/v1/models/local": "local",
        b"/v1/models/reasoner": "reasoner",
        b"/v1/models/org/name": "org/name",
        b"/v1/models/embed": "embed",
    }


def test_an_endpoint_holds_its_own_rules() -> None:
    chat = compiled(PARTNER).plane.endpoints[b"/v1/chat/completions"]["POST"]
    assert (chat.name, chat.dialect, chat.body_limit) == ("chat", "openai-chat", 2 * 1024 * 1024)
    assert chat.parameters is not None
    assert chat.deadlines == Deadlines()
    embeddings = compiled(PARTNER).plane.endpoints[b"/v1/embeddings"]["POST"]
    assert embeddings.needs == {"llm.embed"}


def test_deadlines_are_in_seconds_and_absent_ones_leave_the_setting() -> None:
    chat = compiled(INTERNAL).plane.endpoints[b"/v1/chat/completions"]["POST"]
    assert chat.deadlines == Deadlines(first_byte=300, idle=None, total=1800)


def test_a_query_is_accepted_on_an_inference_endpoint_as_listed() -> None:
    policy = compiled(PARTNER, ("    body_limit: 2MiB", '    body_limit: 2MiB\n    query: {beta: ["true"]}'))
    assert policy.plane.endpoints[b"/v1/chat/completions"]["POST"].query == {"beta": {"true"}}


def test_control_endpoints_name_their_engine_and_query() -> None:
    sleep = compiled(CONTROL).plane.endpoints[b"/engines/main/sleep"]["POST"]
    assert (sleep.engine, sleep.body_limit) == ("main", None)
    assert sleep.query == {"level": {"1", "2"}}


def test_one_path_may_have_two_methods() -> None:
    looker = "  looker: {is: {corp: looker}, may: [second], limits: person}\n  staff:\n    is: {tunnel"
    cases = (
        "    - {name: it may look, who: a looker, ask: HEAD /v1/models, permit: {}}\n"
        "    - {name: acme may not, who: acme app, ask: HEAD /v1/models, deny: endpoint-not-granted}\n"
    )
    policy = compiled(
        PARTNER,
        second("HEAD /v1/models", "openai-models"),
        ("  staff:\n    is: {tunnel", looker),
        ("    nobody:    ", "    a looker: {client: looker}\n    nobody:    "),
        ("  expect:\n", f"  expect:\n{cases}"),
    )
    assert policy.plane.endpoints[b"/v1/models"].keys() == {"GET", "HEAD"}


def test_models_are_resolved_with_their_defaults() -> None:
    models = compiled(PARTNER).plane.models
    assert models["reasoner"] == Model(
        "reasoner", "reasoner", "deepseek", "deepseek-ai/DeepSeek-V3.1", "thinking", 16384
    )
    assert models["embed"] == Model("embed", "embedder", "bge-m3", "BAAI/bge-m3")
    assert compiled(CONTROL).plane.models == {}


LOCAL = "thinking_switch: enable_thinking, most_tokens: 4096}"


def limited(limits: str) -> tuple[str, str]:
    """Give the edit by which the model local has a set of limits."""
    return LOCAL, f"{LOCAL[:-1]}, limits: {limits}}}"


def test_a_model_has_the_limits_of_a_set() -> None:
    plane = compiled(PARTNER, limited("standard")).plane
    assert plane.models["local"].limit is plane.limits["standard"]
    assert plane.models["embed"].limit is None


@pytest.mark.parametrize(
    "broken",
    [
        Broken(*limited("standrd"), "  local:    {", "the nearest is `standard`"),
        Broken(*limited("first"), "  local:    {", "`limits.first` says a priority, which only clients have"),
    ],
    ids=("unknown", "priority"),
)
def test_limits_of_a_model_that_say_nothing_are_refused_at_their_line(broken: Broken) -> None:
    first = "limits:\n  first: {requests_per_minute: 1, concurrent_requests: 1, priority: high}\n"
    text = edited(PARTNER, ("limits:\n", first), (broken.old, broken.new))
    ((problem,),) = [problems(text)]
    assert broken.words in problem.sentence
    assert text.splitlines()[problem.line - 1].startswith(broken.at)
