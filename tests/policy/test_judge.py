from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.call import Call
from gateway.dialects.registry import FACTS
from gateway.policy.decision import Deny, Grant, Permit
from gateway.policy.judge import judge, prompts
from gateway.policy.model import Cap, Endpoint, Model, Narrowing, ParameterRules, Plane, ThinkingRule
from gateway.reasons import ANSWERS, Malformed, Reason
from tests.policy.planes import EMBEDDINGS, INTERNAL, MODELS, PARTNER, ask, client, plane, principal

if TYPE_CHECKING:
    from gateway.identity.principal import Principal

PARTNER_PLANE = plane()
INTERNAL_PLANE = plane(INTERNAL)
CHAT: dict[str, Any] = {"model": "local", "messages": [{"role": "user", "content": "hi"}]}
PNG = "data:image/png;base64,iVBORw0KGgo="


def refusal(body: dict[str, Any], rules: Plane = PARTNER_PLANE, **changes: Any) -> tuple[Reason, str | None] | None:  # noqa: ANN401
    verdict, _ = ask(body, rules, **changes)
    return (verdict.reason, verdict.param) if isinstance(verdict, Deny) else None


def sent(body: dict[str, Any], rules: Plane = PARTNER_PLANE, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    verdict, written = ask(body, rules, **changes)
    assert not isinstance(verdict, Deny), verdict
    return written


def named(body: dict[str, Any], rules: Plane = PARTNER_PLANE) -> list[str]:
    verdict, _ = ask(body, rules)
    assert not isinstance(verdict, Deny), verdict
    return [str(change) for change in verdict.changes]


def test_an_ordinary_chat_goes_out_with_a_bound_and_thinking_off() -> None:
    assert sent(CHAT) == {
        **CHAT,
        "max_completion_tokens": 4096,
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.parametrize("stream", [True, False, None])
def test_a_permit_says_whether_events_are_asked_for(stream: object) -> None:
    verdict, _ = ask({**CHAT, "stream": stream}, PARTNER_PLANE)
    assert isinstance(verdict, Permit)
    assert verdict.stream is (stream is True)


# Names


@pytest.mark.parametrize(
    "name",
    [
        "chat_template",
        "priority",
        "kv_transfer_params",
        "Chat_Template_Kwargs",
        "MAX_TOKENS",
        "__proto__",
        "$ref",
        "",
        "a b",
    ],
)
@pytest.mark.parametrize("value", [None, {}, 1])
def test_a_field_that_is_not_listed_is_refused_by_name_whatever_its_value(name: str, value: object) -> None:
    verdict, _ = ask({**CHAT, name: value}, PARTNER_PLANE)
    assert isinstance(verdict, Deny)
    assert verdict.reason is Reason.PARAMETER_NOT_ACCEPTED
    assert verdict.param == name.replace(" ", "?")
    assert verdict.detail == f"{verdict.param} is not accepted here"


@pytest.mark.parametrize("name", ["chat_template", "priority", "__proto__", "", "a b", "\N{EURO SIGN}"])
def test_or_dropped_and_named(name: str) -> None:
    body = {**CHAT, name: {"enable_thinking": True}}
    assert name not in sent(body, INTERNAL_PLANE)
    assert f"drop {name.replace(' ', '?').replace(chr(0x20AC), '?')}" in named(body, INTERNAL_PLANE)


def test_names_come_before_values_and_the_first_of_them_is_named() -> None:
    body = {"temperature": "hot", **CHAT, "chat_template_kwargs": {"add_vision_id": True}, "b": 1, "a": 1}
    assert refusal(body) == (Reason.PARAMETER_NOT_ACCEPTED, "b")
    del body["a"], body["b"]
    assert refusal(body) == (Reason.PARAMETER_NOT_ACCEPTED, "chat_template_kwargs.add_vision_id")


def test_members_of_closed_lists_are_dropped_where_that_is_the_rule() -> None:
    body = {
        **CHAT,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "chat_template_kwargs": {"add_vision_id": True},
    }
    written = sent(body, INTERNAL_PLANE)
    assert written["stream_options"] == {"include_usage": True}
    assert written["chat_template_kwargs"] == {"enable_thinking": False}
    assert "drop stream_options.continuous_usage_stats" in named(body, INTERNAL_PLANE)


def test_members_of_messages_and_parts_are_dropped_in_every_message() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}], "id": "m"},
        {"role": "assistant", "content": "b", "id": "n", "annotations": []},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}, "uuid": "k"}]},
    ]
    written = sent({"model": "local", "messages": messages}, INTERNAL_PLANE)
    assert written["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]},
    ]


def test_a_dotted_name_that_would_pass_for_a_member_is_refused_everywhere() -> None:
    body = {**CHAT, "chat_template_kwargs.enable_thinking": True}
    assert refusal(body, INTERNAL_PLANE) == (Reason.PARAMETER_NOT_ACCEPTED, "chat_template_kwargs.enable_thinking")
    body = {**CHAT, "chat_template_kwargs": {"a.b": 1}}
    assert refusal(body, INTERNAL_PLANE) == (Reason.PARAMETER_NOT_ACCEPTED, "chat_template_kwargs.a.b")


# Values


@pytest.mark.parametrize("name", sorted(FACTS["openai-chat"].standard - {"messages"}))
def test_null_is_an_omission_and_never_sent(name: str) -> None:
    parent, _, member = name.partition(".")
    body = {**CHAT, "stream": True, parent: {member: None} if member else None}
    rules = plane(clients=[client("acme", models=("local",))])
    assert "null" not in json.dumps(sent(body, rules))


@pytest.mark.parametrize(
    "changes, param",
    [
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user", "content": "a<|im_end|>"}]}, "messages[0].content"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 5.0}, "max_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
        ({"n": True}, "n"),
        ({"stream": "true"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream_options": {"include_usage": 1}, "stream": True}, "stream_options.include_usage"),
        ({"stream_options": [], "stream": True}, "stream_options"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"model": ["local"]}, "model"),
        ({"user": 5}, "user"),
    ],
)
def test_a_value_that_is_not_valid_is_refused_where_it_stands(changes: dict[str, Any], param: str) -> None:
    assert refusal({**CHAT, **changes}) == (Reason.PARAMETER_INVALID, param)


def test_a_body_without_messages_is_no_chat() -> None:
    assert refusal({"model": "local"}) == (Reason.PARAMETER_INVALID, "messages")
    assert refusal({"model": "embed"}, endpoint="embeddings") == (Reason.PARAMETER_INVALID, "input")


def test_media_come_from_the_hosts_of_the_plane_alone() -> None:
    body = {
        **CHAT,
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://h.example/"}}]}],
    }
    assert refusal(body) == (Reason.PARAMETER_INVALID, "messages[0].content[0].image_url.url")
    assert refusal(body, plane(media_hosts=frozenset({"h.example"}))) is None


def test_no_verdict_shows_what_was_sent() -> None:
    secret = "a-secret-prompt"
    bodies = [
        {**CHAT, "messages": [{"role": secret}]},
        {**CHAT, "messages": [{"role": "user", "content": f"{secret}<|im_end|>"}]},
        {**CHAT, "temperature": secret},
        {**CHAT, "model": secret},
        {**CHAT, "reasoning_effort": secret},
    ]
    for body in bodies:
        verdict, _ = ask(body, PARTNER_PLANE)
        assert isinstance(verdict, Deny)
        assert secret not in repr(verdict)
    verdict, _ = ask({**CHAT, "user": secret, "stop": secret}, INTERNAL_PLANE)
    assert secret not in repr(verdict)


# Models


@pytest.mark.parametrize(
    "model",
    ["reasoner ", " local", "LOCAL", "loca", "local\n", "", "deepseek", "bge-m3", "gpt-4o", "embed", "l*", ".*"],
)
def test_a_model_is_one_of_the_clients_aliases_literally_and_fits(model: str) -> None:
    assert refusal({**CHAT, "model": model}) == (Reason.MODEL_NOT_PERMITTED, "model")


def test_a_model_of_another_client_is_not_there() -> None:
    assert refusal({**CHAT, "model": "reasoner"}, who="staff") == (Reason.MODEL_NOT_PERMITTED, "model")


@pytest.mark.parametrize("named_as", [{}, {"model": None}])
def test_the_only_model_that_fits_need_not_be_named(named_as: dict[str, None]) -> None:
    messages = {"messages": CHAT["messages"]}
    assert sent({**messages, **named_as}, who="staff")["model"] == "local"
    assert refusal({**messages, **named_as}) == (Reason.MODEL_MISSING, "model")
    assert sent({"input": "a", **named_as}, endpoint="embeddings")["model"] == "bge-m3"


def test_the_name_at_the_engine_is_sent_in_place_of_the_alias() -> None:
    assert sent({**CHAT, "model": "reasoner"})["model"] == "deepseek"
    assert "replace model" in named({**CHAT, "model": "reasoner"})
    assert "replace model" not in named(CHAT)


def test_the_resolved_model_leaves_with_the_permit() -> None:
    verdict, _ = ask({**CHAT, "model": "reasoner"}, PARTNER_PLANE)
    assert isinstance(verdict, Permit)
    assert verdict.model is MODELS["reasoner"]


def without_body(endpoint: str, who: str) -> Permit | Deny:
    found = next(one for paths in PARTNER_PLANE.endpoints.values() for one in paths.values() if one.name == endpoint)
    return judge(PARTNER_PLANE, Grant(PARTNER_PLANE.clients[who], found, principal(who)), Call({}))


def test_the_list_of_models_has_nothing_to_judge() -> None:
    assert without_body("models", "acme") == Permit()


def test_the_model_of_a_path_must_be_the_clients() -> None:
    assert without_body("model", "staff") == Permit(model=MODELS["local"])
    fewer = plane(clients=[client("acme", models=("reasoner",))])
    path = Endpoint("model", "GET", b"/v1/models/local", "openai-model", model="local")
    verdict = judge(fewer, Grant(fewer.clients["acme"], path, principal()), Call({}))
    assert verdict == Deny(Reason.MODEL_NOT_PERMITTED)


# Changes


def test_what_only_a_hosted_service_uses_is_dropped_and_named() -> None:
    body = {**CHAT, "user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto"}
    assert not {"user", "metadata", "store", "service_tier"} & sent(body).keys()
    assert {"drop user", "drop metadata", "drop store", "drop service_tier"} <= set(named(body))


@pytest.mark.parametrize("choice", [{}, {"tool_choice": "auto"}, {"tool_choice": "none"}, {"tool_choice": None}])
@pytest.mark.parametrize("tools", [{}, {"tools": []}, {"tools": None}])
def test_no_tools_and_no_choice_among_them_are_sent(choice: dict[str, Any], tools: dict[str, Any]) -> None:
    """VLLM answers 400 to either."""
    assert not {"tools", "tool_choice"} & sent({**CHAT, **tools, **choice}).keys()


def test_a_default_is_set_when_absent_and_a_force_always() -> None:
    assert sent(CHAT, INTERNAL_PLANE)["temperature"] == 0.2
    assert sent({**CHAT, "temperature": None}, INTERNAL_PLANE)["temperature"] == 0.2
    assert sent({**CHAT, "temperature": 1}, INTERNAL_PLANE)["temperature"] == 1
    assert sent({**CHAT, "parallel_tool_calls": True}, INTERNAL_PLANE)["parallel_tool_calls"] is False
    assert "replace parallel_tool_calls" in named({**CHAT, "parallel_tool_calls": True}, INTERNAL_PLANE)


def rules(**changes: Any) -> Plane:  # noqa: ANN401  (whichever rules a test is about)
    return plane(replace(PARTNER, **changes))


def test_a_default_for_the_longest_answer_yields_to_either_name() -> None:
    defaulted = rules(defaults={"max_tokens": 7})
    assert sent(CHAT, defaulted)["max_tokens"] == 7
    written = sent({**CHAT, "max_completion_tokens": 9}, defaulted)
    assert (written["max_completion_tokens"], written.get("max_tokens")) == (9, None)


def test_a_forced_longest_answer_is_forced_under_the_callers_names() -> None:
    forced = rules(force={"max_tokens": 7})
    assert sent(CHAT, forced)["max_tokens"] == 7
    written = sent({**CHAT, "max_completion_tokens": 9}, forced)
    assert (written["max_completion_tokens"], written.get("max_tokens")) == (7, None)
    both = sent({**CHAT, "max_completion_tokens": 9, "max_tokens": 9}, forced)
    assert (both["max_completion_tokens"], both["max_tokens"]) == (7, 7)


def test_what_a_forced_stream_leaves_without_meaning_is_dropped() -> None:
    forced = rules(force={"stream": False})
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    assert "stream_options" not in sent(body, forced)
    counted = rules(force={"stream_options.include_usage": True})
    assert "stream_options" not in sent(CHAT, counted)
    assert sent({**CHAT, "stream": True}, counted)["stream_options"] == {"include_usage": True}


def test_caps_lower_or_refuse_as_the_policy_says() -> None:
    assert refusal({**CHAT, "n": 2}) == (Reason.PARAMETER_OVER_CAP, "n")
    assert sent({**CHAT, "n": 2}, INTERNAL_PLANE)["n"] == 1
    assert sent({**CHAT, "logprobs": True, "top_logprobs": 20})["top_logprobs"] == 5
    assert "lower top_logprobs" in named({**CHAT, "top_logprobs": 20})
    many = {"model": "embed", "input": ["a"] * 2049}
    assert refusal(many, endpoint="embeddings") == (Reason.PARAMETER_OVER_CAP, "input")


def test_a_model_that_does_not_fit_is_a_reason_before_any_cap() -> None:
    assert refusal({**CHAT, "n": 2, "model": "none"}) == (Reason.MODEL_NOT_PERMITTED, "model")


def test_embeddings_get_neither_tokens_nor_switches() -> None:
    body = {"model": "embed", "input": ["a"], "encoding_format": "base64", "dimensions": 8, "user": "u"}
    assert sent(body, endpoint="embeddings") == {
        "model": "bge-m3",
        "input": ["a"],
        "encoding_format": "base64",
        "dimensions": 8,
    }


def test_an_endpoint_without_parameters_accepts_no_field() -> None:
    assert refusal(CHAT, plane(None)) == (Reason.PARAMETER_NOT_ACCEPTED, "model")


# The corpus of attacks, as far as it is about bodies


def _body(case: dict[str, Any]) -> bytes | None:
    given_input = case["input"]
    if given_input.get("transform") or given_input["headers"] or given_input["content_type"] != "application/json":
        return None
    if given_input["body"] is not None:
        text: str = given_input["body"]
        return text.encode(given_input["encoding"])
    parts = []
    for kind, *values in given_input["segments"]:
        if "MAX_BODY+1" in values:
            return None
        if kind == "lit":
            parts.append(values[0])
        elif kind == "rep":
            parts.append(values[0] * values[1])
        else:
            parts.append("".join(values[0] % number for number in range(values[1])))
    return "".join(parts).encode()


ATTACKS = [
    (case, body)
    for case in json.loads(Path(__file__).parents[1].joinpath("corpus", "attacks.json").read_text("utf-8"))
    if case["group"] == "json-body" and (body := _body(case)) is not None
]
ADDED = {"model", "max_tokens", "max_completion_tokens", "chat_template_kwargs"}
ATTACKED = replace(
    plane(clients=[client("acme", models=("m",))]), models={"m": replace(MODELS["local"], alias="m", served_as="m")}
)


@pytest.mark.parametrize("case, body", ATTACKS, ids=[f"{case['id']} {case['title']}" for case, _ in ATTACKS])
def test_an_attack_by_body_is_answered_as_the_corpus_says(case: dict[str, Any], body: bytes) -> None:
    expected = case["expected"]
    try:
        verdict, written = ask(body, ATTACKED, groups=("reasoning",))
    except Malformed as fault:
        verdict, written = Deny(fault.reason), {}
    if isinstance(verdict, Deny):
        assert ANSWERS[verdict.reason].status in expected["status"]
        assert expected.get("reason") in {None, verdict.reason}
        return
    assert 200 in expected["status"]
    original = json.loads(body)
    assert "null" not in json.dumps(written)
    assert written.keys() - original.keys() <= ADDED
    assert all(1 <= written[name] <= 4096 for name in ("max_completion_tokens", "max_tokens") if name in written)
    assert {"max_completion_tokens", "max_tokens"} & written.keys()
    if "chat_template_kwargs == " in expected["upstream"]:
        assert written["chat_template_kwargs"] == {"enable_thinking": False}


def test_the_corpus_is_there() -> None:
    assert len(ATTACKS) >= 50


# Whatever is sent


LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=5)
NAMES = st.sampled_from(
    [
        *(name for name in FACTS["openai-chat"].fields if "." not in name),
        "input",
        "enable_thinking",
        "thinking",
        "include_usage",
        "role",
        "content",
        "type",
        "text",
        "url",
        "function",
        "name",
        "",
    ]
) | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES | st.sampled_from(["user", "text", "auto", "none", "high", "local"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)
PARTS = st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}, optional={"cache_control": VALUES})
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"])},
        optional={"content": st.none() | st.text() | st.lists(PARTS), "id": VALUES, "name": st.text(), "audio": VALUES},
    ),
    max_size=3,
)
SWITCH = st.booleans() | st.none()
LONGEST = st.integers(1, 9999) | st.none()
ORDINARY: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"messages": MESSAGES, "model": st.sampled_from(["local", "twice", "effort", "plain"])},
    optional={
        "chat_template_kwargs": st.none()
        | st.fixed_dictionaries({}, optional={"enable_thinking": SWITCH, "thinking": SWITCH, "add_vision_id": VALUES}),
        "reasoning_effort": st.sampled_from(["none", "high", None]),
        "thinking_token_budget": st.integers(-1, 9) | st.none(),
        "max_tokens": LONGEST,
        "max_completion_tokens": LONGEST,
        "stream": SWITCH,
        "stream_options": st.none() | st.fixed_dictionaries({}, optional={"include_usage": SWITCH}),
        "tools": st.none() | st.just([]),
        "tool_choice": st.sampled_from(["auto", "none", None]),
        "n": st.integers(1, 3) | st.none(),
        "user": st.text() | st.none(),
        "priority": LEAVES,
    },
)
ODD = st.dictionaries(NAMES, VALUES, max_size=2)
BODIES = ORDINARY | st.builds(lambda body, odd: {**body, **odd}, ORDINARY, ODD) | ODD
PLANES = st.sampled_from(
    [
        PARTNER_PLANE,
        INTERNAL_PLANE,
        plane(replace(INTERNAL, thinking=ThinkingRule(everyone=False, disable_otherwise=True))),
        plane(replace(PARTNER, drop_unlisted=True, thinking=ThinkingRule())),
        plane(
            ParameterRules(
                accept=frozenset(
                    name for name in FACTS["openai-chat"].fields if FACTS["openai-chat"].why_not_accepted(name) is None
                ),
                drop_unlisted=True,
                caps={"max_tokens": Cap(at_most=50, lower=True), "messages": Cap(at_most_characters=4000)},
            )
        ),
    ]
)


def _judged(body: dict[str, Any], on: Plane, who: Principal) -> tuple[Permit | Deny, dict[str, Any]]:
    try:
        return ask(body, on, who=who.id, groups=who.groups)
    except Malformed as fault:
        return Deny(fault.reason), {}


@given(body=BODIES, on=PLANES, researcher=st.booleans())
def test_any_object_is_refused_or_once_written_needs_no_further_change(
    body: dict[str, Any], on: Plane, *, researcher: bool
) -> None:
    who = principal(groups=["reasoning"] if researcher else [])
    verdict, written = _judged(body, on, who)
    if isinstance(verdict, Deny):
        return
    again, rewritten = _judged(written, on, who)
    assert isinstance(again, Permit)
    assert [change for change in again.changes if change.action != "replace" or change.field != "model"] == []
    assert rewritten == written


@given(st.dictionaries(st.sampled_from(["input", "model", "user", "dimensions", "x"]), VALUES, max_size=4))
def test_any_object_for_embeddings_is_refused_or_written_from_what_is_listed(body: dict[str, Any]) -> None:
    verdict, written = ask(body, PARTNER_PLANE, endpoint="embeddings")
    if isinstance(verdict, Permit):
        assert written.keys() <= EMBEDDINGS.accept - {"user"}
        assert written["model"] == "bge-m3"


def test_a_field_without_which_there_is_no_request_is_not_silently_dropped() -> None:
    rules = plane(ParameterRules(frozenset({"model"}), drop_unlisted=True))
    assert refusal(CHAT, rules) == (Reason.PARAMETER_NOT_ACCEPTED, "messages")


# Adapters (LoRA), which an engine serves as models of their own


@pytest.mark.parametrize("name", ["sql-lora", "deepseek", "local:sql-lora", "LOCAL", "local ", "../local", "/models/x"])
def test_a_name_that_the_engine_may_know_and_the_policy_does_not_list_is_no_model(name: str) -> None:
    """An engine takes the name of any adapter it has loaded, or would load one by that name."""
    assert refusal({**CHAT, "model": name}) == (Reason.MODEL_NOT_PERMITTED, "model")
    assert refusal({"input": "a", "model": name}, endpoint="embeddings") == (Reason.MODEL_NOT_PERMITTED, "model")


def test_an_adapter_that_is_listed_is_sent_by_its_own_name() -> None:
    models = {**MODELS, "sql": Model("sql", "main", "sql-lora", most_tokens=64)}
    rules = replace(PARTNER_PLANE, models=models, clients={"acme": client("acme", models=("sql",))})
    assert sent({**CHAT, "model": "sql"}, rules)["model"] == "sql-lora"
    assert sent({"messages": []}, rules)["model"] == "sql-lora"
    assert refusal({**CHAT, "model": "sql-lora"}, rules) == (Reason.MODEL_NOT_PERMITTED, "model")


# What a client or a model narrows


NARROW = plane(
    replace(PARTNER, caps={"n": Cap(at_most=8), "top_logprobs": Cap(at_most=5, lower=True)}),
    clients=[
        client(
            "small",
            narrow={
                "chat": Narrowing(
                    frozenset({"tools", "top_k"}),
                    (
                        ("n", Cap(at_most=2, lower=True)),
                        ("top_logprobs", Cap(at_most=3)),
                        ("max_tokens", Cap(at_most=9)),
                    ),
                    ThinkingRule(everyone=False, disable_otherwise=True),
                )
            },
        ),
        client("acme"),
    ],
)


def test_a_field_that_a_client_goes_without_is_refused_by_name() -> None:
    assert refusal({**CHAT, "top_k": 1}, NARROW, who="small") == (Reason.PARAMETER_NOT_ACCEPTED, "top_k")
    assert refusal({**CHAT, "top_k": 1}, NARROW) is None


@pytest.mark.parametrize("n, what", [(1, 1), (2, 2), (3, 2), (8, 2), (9, None)])
def test_both_caps_hold_the_endpoints_first(n: int, what: int | None) -> None:
    """Nine is refused by the endpoint, although the client's own cap would lower it."""
    if what is None:
        assert refusal({**CHAT, "n": n}, NARROW, who="small") == (Reason.PARAMETER_OVER_CAP, "n")
    else:
        assert sent({**CHAT, "n": n}, NARROW, who="small")["n"] == what


@pytest.mark.parametrize("number", [3, 4, 5, 6, 20])
def test_a_narrower_cap_that_refuses_refuses_what_the_endpoint_would_lower(number: int) -> None:
    body = {**CHAT, "logprobs": True, "top_logprobs": number}
    assert (refusal(body, NARROW, who="small") is None) == (number <= 3)
    assert sent(body, NARROW)["top_logprobs"] == min(number, 5)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_client_s_cap_on_the_answer_holds_under_each_name_and_when_none_is_sent(name: str) -> None:
    assert refusal({**CHAT, name: 10}, NARROW, who="small") == (Reason.PARAMETER_OVER_CAP, name)
    assert sent({**CHAT, name: 9}, NARROW, who="small")[name] == 9
    assert sent(CHAT, NARROW, who="small")["max_completion_tokens"] == 9


def test_a_client_whose_thinking_is_narrowed_cannot_enable_it_even_by_a_group_or_a_side_door() -> None:
    wish = {**CHAT, "chat_template_kwargs": {"enable_thinking": True}}
    off = {"enable_thinking": False}
    assert sent(wish, NARROW, groups=["reasoning"])["chat_template_kwargs"] == {"enable_thinking": True}
    assert sent(wish, NARROW, who="small", groups=["reasoning"])["chat_template_kwargs"] == off
    marked = {"model": "local", "messages": [{"role": "user", "content": "<|im_start|>"}]}
    assert refusal(marked, NARROW, who="small") is not None


def test_a_model_s_own_caps_hold_for_its_calls_alone() -> None:
    models = {**MODELS, "local": replace(MODELS["local"], caps=(("seed", Cap(at_most=7, lower=True)),))}
    rules = replace(PARTNER_PLANE, models=models)
    assert sent({**CHAT, "seed": 9}, rules)["seed"] == 7
    assert sent({**CHAT, "seed": 9, "model": "plain"}, rules)["seed"] == 9
    refusing = {**MODELS, "local": replace(MODELS["local"], caps=(("seed", Cap(at_most=7)),))}
    assert refusal({**CHAT, "seed": 9}, replace(PARTNER_PLANE, models=refusing)) == (Reason.PARAMETER_OVER_CAP, "seed")


# Completions and responses

COMPLETIONS = ParameterRules(
    accept=FACTS["openai-completions"].standard, caps={"prompt": Cap(at_most_items=2), "n": Cap(at_most=1)}
)
RESPONSES = ParameterRules(accept=FACTS["openai-responses"].standard, refuse_special_tokens=True)


def everything(dialect: str) -> ParameterRules:
    facts = FACTS[dialect]
    return ParameterRules(
        accept=frozenset(name for name in facts.fields if facts.why_not_accepted(name) is None), drop_unlisted=True
    )


def both(completions: ParameterRules = COMPLETIONS, responses: ParameterRules = RESPONSES) -> Plane:
    return plane(
        endpoints=[
            Endpoint("completions", "POST", b"/v1/completions", "openai-completions", parameters=completions),
            Endpoint("responses", "POST", b"/v1/responses", "openai-responses", parameters=responses),
        ]
    )


BOTH = both()
DROPPING = both(everything("openai-completions"), everything("openai-responses"))


def response(body: dict[str, Any], rules: Plane = BOTH) -> dict[str, Any]:
    return sent({"model": "local", "input": "hi", **body}, rules, endpoint="responses")


def no_response(body: dict[str, Any], rules: Plane = BOTH) -> tuple[Reason, str | None] | None:
    return refusal({"model": "local", "input": "hi", **body}, rules, endpoint="responses")


def test_a_special_token_in_pieces_is_refused_where_one_in_one_piece_is() -> None:
    pieces = {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": text} for text in ("<|im_", "end|>")]}]
    }
    assert no_response(pieces) == (Reason.PARAMETER_INVALID, "input")
    assert response(pieces, DROPPING)["input"] == pieces["input"]


def test_a_response_is_never_stored_whatever_the_caller_says() -> None:
    ordinary = {
        "model": "local",
        "input": "hi",
        "store": False,
        "max_output_tokens": 4096,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    stores: list[dict[str, Any]] = [{}, {"store": True}, {"store": False}, {"store": None}]
    for body in stores:
        assert response(body) == ordinary
    verdict, _ = ask({"model": "local", "input": "hi", "store": True}, BOTH, endpoint="responses")
    assert isinstance(verdict, Permit)
    assert "replace store" in [str(change) for change in verdict.changes]


@pytest.mark.parametrize(
    "body",
    [
        {"background": True},
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"prompt": {"id": "pmpt_1"}},
        {"previous_input_messages": []},
        {"moderation": {"model": "m"}},
    ],
)
@pytest.mark.parametrize("rules", [BOTH, DROPPING], ids=["refusing", "dropping"])
def test_what_would_need_a_kept_answer_is_refused_by_name_and_never_dropped(body: dict[str, Any], rules: Plane) -> None:
    assert no_response(body, rules) == (Reason.PARAMETER_NOT_ACCEPTED, next(iter(body)))


def test_the_refusal_says_what_to_do_instead() -> None:
    verdict, _ = ask({"input": "hi", "previous_response_id": "r"}, BOTH, endpoint="responses")
    assert isinstance(verdict, Deny)
    assert verdict.detail == (
        "previous_response_id is not accepted here. No answer is kept here: send the whole conversation as input"
    )


def test_what_asks_for_no_state_passes() -> None:
    absent = {"background": False, "previous_response_id": None, "conversation": None, "prompt": None}
    assert response(absent) == response({})


def test_members_that_only_a_hosted_service_reads_are_dropped_and_their_empty_parents_too() -> None:
    body = {"reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}, "stream_options": {}, "user": "u"}
    assert response(body) == response({})
    kept = {"text": {"verbosity": "low", "format": {"type": "text"}}}
    assert response(kept)["text"] == {"format": {"type": "text"}}


def test_an_answer_that_is_sent_back_goes_out_without_its_state() -> None:
    item = {"id": "m", "type": "message", "role": "assistant", "status": "in_progress", "content": "a"}
    assert response({"input": [item]})["input"] == [{"type": "message", "role": "assistant", "content": "a"}]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "f"}])
def test_a_choice_among_no_tools_is_refused_or_dropped_in_a_response_too(choice: object) -> None:
    assert no_response({"tool_choice": choice}) == (Reason.PARAMETER_INVALID, "tool_choice")
    assert response({"tool_choice": "auto"}) == response({})


def test_a_completion_has_as_many_tokens_as_at_openai_unless_it_asks_for_more() -> None:
    ordinary = {"model": "local", "prompt": "hi"}
    assert sent(ordinary, BOTH, endpoint="completions") == {**ordinary, "max_tokens": 16}
    assert sent({**ordinary, "max_tokens": 500}, BOTH, endpoint="completions")["max_tokens"] == 500
    assert sent({**ordinary, "max_tokens": 9999}, BOTH, endpoint="completions")["max_tokens"] == 4096


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"prompt": ["a", "b"]}, None),
        ({"prompt": ["a", "b", "c"]}, (Reason.PARAMETER_OVER_CAP, "prompt")),
        ({"prompt": [1, 2]}, (Reason.PARAMETER_INVALID, "prompt[0]")),
        ({"prompt": [[1]]}, (Reason.PARAMETER_INVALID, "prompt[0]")),
        ({"prompt": ""}, (Reason.PARAMETER_INVALID, "prompt")),
        ({"prompt": None}, (Reason.PARAMETER_INVALID, "prompt")),
        ({"echo": True}, (Reason.PARAMETER_NOT_ACCEPTED, "echo")),
        ({"best_of": 3}, (Reason.PARAMETER_NOT_ACCEPTED, "best_of")),
        ({"n": 2}, (Reason.PARAMETER_OVER_CAP, "n")),
        ({"logprobs": 6}, (Reason.PARAMETER_INVALID, "logprobs")),
        ({"chat_template_kwargs": {"enable_thinking": False}}, (Reason.PARAMETER_NOT_ACCEPTED, "chat_template_kwargs")),
        ({"stream_options": {"include_usage": True}}, (Reason.PARAMETER_INVALID, "stream_options")),
        ({"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}}, None),
    ],
)
def test_a_completion_is_judged_like_a_chat(body: dict[str, Any], expected: tuple[Reason, str] | None) -> None:
    assert refusal({"model": "local", "prompt": "hi", **body}, BOTH, endpoint="completions") == expected


ITEMS = st.sampled_from(
    [
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "assistant", "id": "m", "status": "incomplete", "content": "a"},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": None},
        {"type": "function_call_output", "call_id": "c", "output": "x", "x": 1},
        {"type": "function_call_output", "call_id": "c", "output": "x", "name": "f", "id": None},
        {"role": "user", "content": "hi", "name": "x"},
        {"type": "reasoning", "summary": [], "arguments": "x"},
        {"type": "item_reference", "id": "m"},
    ]
)
RESPONSE_BODIES = st.fixed_dictionaries(
    {"input": st.text() | st.lists(ITEMS, max_size=3), "model": st.just("local")},
    optional={
        "store": SWITCH,
        "background": SWITCH,
        "previous_response_id": st.none() | st.text(),
        "reasoning": st.none()
        | st.fixed_dictionaries(
            {}, optional={"effort": st.sampled_from(["none", "high", None]), "summary": st.just("auto")}
        ),
        "text": st.none()
        | st.fixed_dictionaries(
            {}, optional={"verbosity": st.just("low"), "format": st.sampled_from([{"type": "text"}, None])}
        ),
        "tools": st.sampled_from([None, [], [{"type": "function", "name": "f", "async": False}]]),
        "tool_choice": st.sampled_from(["auto", "required", None]),
        "max_output_tokens": st.integers(1, 9999) | st.none(),
        "stream_options": st.just({"include_obfuscation": True}),
        "chat_template_kwargs": st.sampled_from([None, {}, {"thinking": True}, {"enable_thinking": None}]),
        "priority": LEAVES,
    },
)
COMPLETION_BODIES = st.fixed_dictionaries(
    {"prompt": st.text() | st.lists(st.text(), max_size=3), "model": st.just("local")},
    optional={
        "max_tokens": st.integers(1, 9999) | st.none(),
        "thinking_token_budget": st.integers(-1, 9) | st.none(),
        "stream": SWITCH,
        "stream_options": st.fixed_dictionaries({}, optional={"include_obfuscation": SWITCH, "include_usage": SWITCH}),
        "echo": SWITCH,
        "user": st.text(),
    },
)


@given(
    asked=st.tuples(st.just("responses"), RESPONSE_BODIES) | st.tuples(st.just("completions"), COMPLETION_BODIES),
    odd=ODD,
    rules=st.sampled_from([BOTH, DROPPING]),
)
def test_any_of_these_is_refused_or_once_written_needs_no_further_change_either(
    asked: tuple[str, dict[str, Any]], odd: dict[str, Any], rules: Plane
) -> None:
    endpoint, body = asked
    try:
        verdict, written = ask({**odd, **body}, rules, endpoint=endpoint)
    except Malformed:
        return
    if isinstance(verdict, Permit):
        again, rewritten = ask(written, rules, endpoint=endpoint)
        assert isinstance(again, Permit)
        assert rewritten == written
        assert written.get("store") is (False if endpoint == "responses" else None)


@pytest.mark.parametrize(
    "prompt,number",
    [(None, 1), ("a", 1), (["a"], 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3], [4]], 3), ([1, "a"], 2)],
)
def test_a_list_of_token_ids_is_one_prompt_and_any_other_list_as_many_as_it_has(prompt: object, number: int) -> None:
    assert prompts({"prompt": prompt}) == number
