from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from gateway.policy.compile import compile_policy
from gateway.review.explain import Explanation, NobodyOfThatName, explain

TEXT = """\
policy: 1
plane: shown
listener: public
summary: Two clients by token, one of them suspended.
trust:
  callers:
    corp:
      access_token:
        issuer: https://login.example.com
        audience: shown
        algorithms: [RS256]
        token_type: at+jwt
        clock_skew: 30s
        client_claim: azp
        longest_lifetime: 24h
endpoints:
  chat:
    allow: POST /v1/chat/completions
    dialect: openai-chat
    needs: [llm.chat]
    body_limit: 1KiB
  models:
    allow: GET /v1/models
    dialect: openai-models
models:
  local: {engine: main, served_as: org/real, most_tokens: 64}
  other: {engine: main, served_as: org/other, most_tokens: 64}
parameters:
  chat:
    accept: [standard]
    caps:
      n: {at_most: 1, otherwise: refuse}
    thinking:
      default: disabled
      may_enable: nobody
      otherwise: refuse
limits:
  small: {requests_per_minute: 10, concurrent_requests: 1}
clients:
  acme:
    is: {corp: acme-id}
    may: [chat, models]
    models: [local, other]
    limits: small
  reader:
    is: {corp: reader-id}
    from: [10.0.0.0/8]
    may: [models]
    models: [local]
    limits: small
  gone:
    is: {corp: gone-id}
    suspended: true
    may: [models]
    limits: small
cases:
  who:
    acme: {client: acme, scopes: [llm.chat]}
    acme without scope: {client: acme}
    reader: {client: reader}
    reader elsewhere: {client: reader, address: 11.0.0.1}
    gone: {client: gone}
    stranger: {is: {corp: nobody-we-know}}
    nobody at all: {}
  expect:
    - {name: chats, who: acme, ask: POST /v1/chat/completions, body: {model: local, messages: []}, permit: {}}
    - {name: reads, who: reader, ask: GET /v1/models, permit: {models: [local]}}
    - {name: no key, who: nobody at all, ask: POST /v1/chat/completions, deny: credential-missing}
    - {name: no key either, who: nobody at all, ask: GET /v1/models, deny: credential-missing}
"""
POLICY = compile_policy(TEXT, "shown.yaml")
LINES = dict(enumerate(TEXT.splitlines(), 1))
CHAT = "POST /v1/chat/completions"
TODAY = "2026-11-30"


def ask(who: str, ask_for: str, **fields: object) -> Explanation:
    body = orjson.dumps({"messages": [], **fields}) if ask_for.startswith("POST") else b""
    return explain(POLICY, who, ask_for, body, TODAY)


@pytest.mark.parametrize(
    "who, request_line, fields, reason, key, line",
    [
        ("acme", "POST /invocations", {}, "no-such-endpoint", "endpoints", "endpoints:"),
        ("acme", "GET /v1%2fmodels", {}, "target-not-canonical", "endpoints", "endpoints:"),
        ("acme", "GET /v1/chat/completions", {}, "method-not-allowed", "endpoints.chat.allow", "    allow: POST"),
        ("acme", "GET /v1/models?x=1", {}, "query-not-accepted", "endpoints.models.query", "  models:"),
        ("nobody", "GET /v1/models", {}, "credential-missing", "trust.callers", "  callers:"),
        ("{}", "GET /v1/models", {}, "credential-missing", "trust.callers", "  callers:"),
        ("nobody at all", "GET /v1/models", {}, "credential-missing", "trust.callers", "  callers:"),
        ("stranger", "GET /v1/models", {}, "client-unknown", "clients", "clients:"),
        ("gone", "GET /v1/models", {}, "client-suspended", "clients.gone.suspended", "    suspended: true"),
        ("reader elsewhere", "GET /v1/models", {}, "address-not-accepted", "clients.reader.from", "    from: "),
        ("reader", CHAT, {}, "endpoint-not-granted", "clients.reader.may", "    may: [models]"),
        ("acme without scope", CHAT, {}, "scope-missing", "endpoints.chat.needs", "    needs: "),
        ("acme", CHAT, {"model": "x" * 1024}, "body-too-large", "endpoints.chat.body_limit", "    body_limit: "),
        ("acme", CHAT, {"n": 2, "model": "local"}, "parameter-over-cap", "parameters.chat.caps.n", "      n: "),
        ("acme", CHAT, {"x": 2, "model": "local"}, "parameter-not-accepted", "parameters.chat.accept", "    accept: "),
        ("acme", CHAT, {}, "model-missing", "clients.acme.models", "    models: [local, other]"),
        ("acme", CHAT, {"model": "z"}, "model-not-permitted", "clients.acme.models", "    models: [local, other]"),
    ],
)
def test_a_refusal_is_shown_with_its_rule_and_line(
    who: str, request_line: str, fields: dict[str, object], reason: str, key: str, line: str
) -> None:
    explanation = ask(who, request_line, **fields)
    (rule,) = explanation.rules
    assert not explanation.permitted
    assert (orjson.loads(explanation.as_json())["reason"], rule.key) == (reason, key)
    assert LINES[rule.line].startswith(line)
    text = explanation.as_text()
    assert text.startswith(f"deny: {reason} (")
    assert f"rule: {key}  shown.yaml:{rule.line}" in text


def test_a_wish_to_think_is_refused_by_the_block_about_thinking() -> None:
    explanation = ask("acme", CHAT, model="local", chat_template_kwargs={"enable_thinking": True})
    assert explanation.rules[0].key == "parameters.chat.thinking"


def test_a_permit_is_shown_with_what_is_sent_and_why() -> None:
    text = ask("acme", CHAT, model="local", user="u").as_text()
    assert text.startswith("permit\n  POST /v1/chat/completions by acme\n")
    for line in (
        "  change: drop user",
        '  change: replace model = "org/real"',
        "  change: set max_completion_tokens = 64",
        "  change: set chat_template_kwargs.enable_thinking = false",
        "  sent to the engine main: POST /v1/chat/completions",
        '      "model": "org/real",',
    ):
        assert line in text.splitlines()


def test_a_machine_reads_the_same() -> None:
    document = orjson.loads(ask("acme", CHAT, model="local").as_json())
    assert document["verdict"] == "permit"
    named = [document[name] for name in ("endpoint", "client", "model", "engine")]
    assert named == ["chat", "acme", "local", "main"]
    assert document["sent"]["model"] == "org/real"
    assert {"action": "replace", "field": "model", "value": "org/real"} in document["changes"]
    keys = [rule["key"] for rule in document["rules"]]
    assert keys == ["endpoints.chat", "clients.acme", "limits.small", "parameters.chat", "models.local"]


def test_what_the_gateway_answers_itself_is_shown_as_such() -> None:
    explanation = ask("acme", "GET /v1/models")
    assert "  answered by the gateway; models: local, other" in explanation.as_text().splitlines()
    assert orjson.loads(explanation.as_json())["sent"] is None


def test_a_detail_for_the_operator_is_shown_to_the_operator() -> None:
    assert "  recorded: fits no client" in ask("stranger", "GET /v1/models").as_text().splitlines()
    assert "  field: x" in ask("acme", CHAT, model="local", x=1).as_text().splitlines()


def test_a_caller_that_the_cases_do_not_know_is_an_error_that_names_those_they_know() -> None:
    with pytest.raises(NobodyOfThatName, match=r"'acme', .* but not 'acmee'"):
        ask("acmee", CHAT)


def test_an_outdated_key_is_outdated_on_the_day_asked_for() -> None:
    example = Path(__file__).parents[1] / "policy" / "examples" / "partner.yaml"
    policy = compile_policy(example.read_text("utf-8"), "partner.yaml")
    assert explain(policy, "batch, old key", "GET /v1/models", b"", "2027-01-31").permitted
    explanation = explain(policy, "batch, old key", "GET /v1/models", b"", "2027-02-01")
    assert explanation.rules[0].key == "trust.callers.keys"
    assert not explanation.permitted


NARROW = (
    TEXT.replace(
        "    models: [local, other]\n    limits: small\n",
        "    models: [local, other]\n    limits: small\n"
        "    narrow:\n"
        "      chat:\n"
        "        without: [tools]\n"
        "        caps:\n"
        "          seed: {at_most: 5, otherwise: refuse}\n",
    )
    .replace(
        "served_as: org/real, most_tokens: 64",
        "served_as: org/real, most_tokens: 64, caps: {seed: {at_most: 3, otherwise: refuse}}",
    )
    .replace("body_limit: 1KiB", "body_limit: 4KiB")
)


@pytest.mark.parametrize(
    "fields, key, line",
    [
        ({"tools": []}, "clients.acme.narrow.chat.without.tools", "        without: [tools]"),
        ({"seed": 6}, "clients.acme.narrow.chat.caps.seed", "          seed: {at_most: 5"),
        ({"seed": 4}, "models.local.caps.seed", "  local: {engine: main"),
        ({"n": 2}, "parameters.chat.caps.n", "      n: {at_most: 1"),
        ({"seed": "x"}, "parameters.chat.accept", "    accept: [standard]"),
    ],
)
def test_an_override_that_refused_is_shown_in_place_of_the_endpoint_s_rule(
    fields: dict[str, object], key: str, line: str
) -> None:
    policy = compile_policy(NARROW, "shown.yaml")
    body = orjson.dumps({"messages": [], "model": "local", **fields})
    (rule,) = explain(policy, "acme", CHAT, body, TODAY).rules
    assert rule.key == key
    assert NARROW.splitlines()[rule.line - 1].startswith(line)


def test_a_permit_that_rests_on_overrides_names_them() -> None:
    policy = compile_policy(NARROW, "shown.yaml")
    rules = explain(policy, "acme", CHAT, orjson.dumps({"messages": [], "model": "local"}), TODAY).rules
    assert {"clients.acme.narrow.chat", "models.local.caps"} <= {rule.key for rule in rules}


def test_a_permit_that_counts_for_its_model_names_its_limits() -> None:
    text = TEXT.replace("served_as: org/real, most_tokens: 64", "served_as: org/real, most_tokens: 64, limits: small")
    policy = compile_policy(text, "shown.yaml")
    rules = explain(policy, "acme", CHAT, orjson.dumps({"messages": [], "model": "local"}), TODAY).rules
    assert "models.local.limits" in {rule.key for rule in rules}


def test_an_explanation_shows_whose_salt_is_sent_and_not_the_salt() -> None:
    assert '  change: set cache_salt = "(the salt of acme)"' in ask("acme", CHAT, model="local").as_text().splitlines()


DESCRIBED = TEXT.replace("cases:\n", "metadata: {resource: 'https://llm.example.com/v1'}\ncases:\n", 1)
PLACE = "/.well-known/oauth-protected-resource/v1"


@pytest.mark.parametrize("who", ["nobody", "acme", "gone"])
def test_the_metadata_of_a_plane_are_answered_to_whoever_asks(who: str) -> None:
    found = explain(compile_policy(DESCRIBED, "shown.yaml"), who, f"GET {PLACE}", b"", "2026-11-30")
    assert found.permitted
    assert [rule.key for rule in found.rules] == ["metadata.resource"]
    assert DESCRIBED.splitlines()[found.rules[0].line - 1].startswith("metadata:")
    assert f"answered by the gateway, with or without a credential: https://llm.example.com{PLACE}" in found.as_text()
    told = orjson.loads(found.as_json())
    assert told["metadata"]["resource"] == "https://llm.example.com/v1"
    assert told["sent"] is None


@pytest.mark.parametrize(
    "ask, reason", [(f"POST {PLACE}", "method-not-allowed"), (f"GET {PLACE}?a=b", "query-not-accepted")]
)
def test_a_question_for_the_metadata_that_is_not_plain_is_refused_by_the_line_of_the_metadata(
    ask: str, reason: str
) -> None:
    found = explain(compile_policy(DESCRIBED, "shown.yaml"), "nobody", ask, b"", "2026-11-30")
    assert f"deny: {reason}" in found.as_text()
    assert [rule.key for rule in found.rules] == ["metadata.resource"]


@pytest.mark.parametrize("text, place", [(TEXT, PLACE), (DESCRIBED, PLACE.removesuffix("/v1"))])
def test_metadata_elsewhere_do_not_exist(text: str, place: str) -> None:
    found = explain(compile_policy(text, "shown.yaml"), "nobody", f"GET {place}", b"", "2026-11-30")
    assert "deny: no-such-endpoint" in found.as_text()


def test_it_says_how_many_tokens_a_call_is_reserved_and_nothing_where_none_are_counted() -> None:
    found = ask("acme", CHAT, model="local", max_tokens=9, user="u")
    said = orjson.loads(found.as_json())
    prompt = -(-len(orjson.dumps(said["sent"])) // 4)
    assert said["reserves"] == {"prompt": prompt, "answer": 9}
    line = f"  reserves {prompt + 9} tokens: {prompt} for the prompt, at most 9 for the answer"
    assert line in found.as_text().splitlines()
    listed = ask("acme", "GET /v1/models")
    assert "reserves" not in listed.as_text() + listed.as_json()
