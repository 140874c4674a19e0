"""The rows of the thinking table of a running vLLM 0.32, judged; numbers there are what the engine would have done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.registry import FACTS
from gateway.policy.decision import Deny
from gateway.policy.model import Endpoint, ParameterRules, ThinkingRule
from gateway.reasons import Reason
from tests.policy.planes import PARTNER, ask, plane

ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
KWARGS = "chat_template_kwargs"
CONTROLS = (KWARGS, "reasoning_effort", "thinking_token_budget")


def rule(**changes: Any) -> ThinkingRule:  # noqa: ANN401  (whichever fields a test is about)
    return ThinkingRule(**{"everyone": False, "groups": frozenset({"reasoning"}), **changes})


def judged(
    body: dict[str, Any], thinking: ThinkingRule, model: str = "local", *, groups: tuple[str, ...] = ()
) -> Reason | dict[str, Any]:
    """Give the reason, or the controls as they are sent."""
    rules = plane(replace(PARTNER, thinking=thinking))
    verdict, sent = ask({**ASKED, "model": model, **body}, rules, groups=groups)
    if isinstance(verdict, Deny):
        return verdict.reason
    return {name: sent[name] for name in CONTROLS if name in sent}


def switches(*names: str, on: bool) -> dict[str, Any]:
    return {KWARGS: dict.fromkeys(names, on)}


OFF = switches("enable_thinking", on=False)
ON = switches("enable_thinking", on=True)

OMISSIONS: list[dict[str, Any]] = [
    {},
    {KWARGS: None},
    {KWARGS: {}},
    {KWARGS: {"enable_thinking": None}},
    {KWARGS: {"enable_thinking": None, "thinking": None}},
    {"reasoning_effort": None},
    {"thinking_token_budget": None},
    {KWARGS: {"enable_thinking": None}, "reasoning_effort": None, "thinking_token_budget": None},
]


@pytest.mark.parametrize("body", OMISSIONS)
@pytest.mark.parametrize(
    "model, off",
    [
        ("local", OFF),
        ("reasoner", switches("thinking", on=False)),
        ("twice", switches("enable_thinking", "thinking", on=False)),
        ("effort", {"reasoning_effort": "none"}),
        ("plain", {}),
    ],
)
def test_without_a_wish_the_models_own_switch_is_sent_off(
    body: dict[str, Any], model: str, off: dict[str, Any]
) -> None:
    assert judged(body, rule(), model) == off


@pytest.mark.parametrize("body", OMISSIONS)
@pytest.mark.parametrize(
    "model, on",
    [
        ("local", ON),
        ("twice", switches("enable_thinking", "thinking", on=True)),
        ("effort", {"reasoning_effort": "high"}),
        ("plain", {}),
    ],
)
def test_or_on_where_that_is_the_default(body: dict[str, Any], model: str, on: dict[str, Any]) -> None:
    assert judged(body, rule(default_enabled=True), model) == on


@pytest.mark.parametrize(
    "body, sent",
    [
        (OFF, OFF),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", **OFF}),
        ({"reasoning_effort": "none", KWARGS: None}, {"reasoning_effort": "none", **OFF}),
        ({"reasoning_effort": "none", KWARGS: {"enable_thinking": None}}, {"reasoning_effort": "none", **OFF}),
        ({"reasoning_effort": "none", **OFF}, {"reasoning_effort": "none", **OFF}),
        ({**OFF, "thinking_token_budget": 5}, {**OFF, "thinking_token_budget": 5}),
        (switches("thinking", on=False), switches("thinking", "enable_thinking", on=False)),
    ],
)
def test_everyone_may_switch_thinking_off_and_it_is_said_so_that_the_model_heeds_it(
    body: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert judged(body, rule()) == sent


WISHES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("local", ON, ON),
    ("local", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    ("local", {"reasoning_effort": "high", KWARGS: {}}, {"reasoning_effort": "high"}),
    ("local", {"reasoning_effort": "high", KWARGS: {"enable_thinking": None}}, {"reasoning_effort": "high"}),
    ("local", {"reasoning_effort": "max", **ON}, {"reasoning_effort": "max", **ON}),
    ("local", {"thinking_token_budget": 5}, {"thinking_token_budget": 5, **ON}),
    ("local", {"thinking_token_budget": 0}, {"thinking_token_budget": 0, **ON}),
    ("local", {**ON, "thinking_token_budget": 5}, {**ON, "thinking_token_budget": 5}),
    ("local", switches("thinking", on=True), switches("thinking", "enable_thinking", on=True)),
    ("reasoner", ON, switches("enable_thinking", "thinking", on=True)),
    ("reasoner", {"reasoning_effort": "high"}, {"reasoning_effort": "high", **switches("thinking", on=True)}),
    ("twice", {"reasoning_effort": "high"}, {"reasoning_effort": "high", **switches("thinking", on=True)}),
    ("effort", ON, {**ON, "reasoning_effort": "high"}),
    ("effort", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    ("plain", ON, ON),
    ("plain", {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
]


@pytest.mark.parametrize("model, body, sent", WISHES)
def test_a_permitted_wish_is_sent_unchanged_and_reaches_the_model(
    model: str, body: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert judged(body, rule(), model, groups=("reasoning",)) == sent
    assert judged(body, ThinkingRule(), model) == sent


@pytest.mark.parametrize("model, body, sent", WISHES)
def test_a_wish_that_is_not_permitted_is_refused(model: str, body: dict[str, Any], sent: dict[str, Any]) -> None:
    assert judged(body, rule(), model) is Reason.THINKING_NOT_PERMITTED
    assert judged(body, rule(), model, groups=("other",)) is Reason.THINKING_NOT_PERMITTED


CONFLICTS: list[dict[str, Any]] = [
    {"reasoning_effort": "high", **OFF},
    {"reasoning_effort": "none", **ON},
    {KWARGS: {"enable_thinking": True, "thinking": False}},
    {"reasoning_effort": "none", **switches("thinking", on=True)},
    {"reasoning_effort": "high", "thinking_token_budget": 5, **switches("thinking", on=False)},
]


@pytest.mark.parametrize("body", CONFLICTS)
@pytest.mark.parametrize("model", ["local", "reasoner", "twice", "effort", "plain"])
def test_a_contradiction_of_the_callers_own_is_sent_as_it_is_and_joined_by_none(
    body: dict[str, Any], model: str
) -> None:
    assert judged(body, rule(), model, groups=("reasoning",)) == body
    assert judged(body, rule(), model) is Reason.THINKING_NOT_PERMITTED


@pytest.mark.parametrize(
    "model, body, sent",
    [
        ("local", ON, OFF),
        ("local", {"reasoning_effort": "high"}, {"reasoning_effort": "none", **OFF}),
        ("local", {"reasoning_effort": "high", **OFF}, {"reasoning_effort": "none", **OFF}),
        ("local", {"reasoning_effort": "none", **ON}, {"reasoning_effort": "none", **OFF}),
        ("local", {"thinking_token_budget": 5}, OFF),
        ("local", {**ON, "thinking_token_budget": 5}, OFF),
        ("local", switches("thinking", on=True), switches("thinking", "enable_thinking", on=False)),
        ("reasoner", ON, switches("enable_thinking", "thinking", on=False)),
        ("twice", ON, switches("enable_thinking", "thinking", on=False)),
        ("effort", ON, {**OFF, "reasoning_effort": "none"}),
        ("plain", ON, OFF),
        ("plain", {"thinking_token_budget": 5}, {}),
    ],
)
def test_otherwise_disable_turns_every_control_that_was_sent_to_off(
    model: str, body: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert judged(body, rule(disable_otherwise=True), model) == sent


def test_what_was_turned_off_is_named() -> None:
    rules = plane(replace(PARTNER, thinking=rule(disable_otherwise=True)))
    body = {**ASKED, "model": "local", "reasoning_effort": "high", "thinking_token_budget": 5, **ON}
    verdict, _ = ask(body, rules)
    assert not isinstance(verdict, Deny)
    named = [str(change) for change in verdict.changes if change.action != "set"]
    assert named == [f"replace {KWARGS}.enable_thinking", "replace reasoning_effort", "drop thinking_token_budget"]


def test_a_client_may_be_permitted_by_name() -> None:
    assert judged(ON, rule(groups=frozenset(), clients=frozenset({"acme"}))) == ON
    assert judged(ON, rule(groups=frozenset(), clients=frozenset({"other"}))) is Reason.THINKING_NOT_PERMITTED


@pytest.mark.parametrize("name", ["enable_thinking", "thinking"])
@pytest.mark.parametrize("value", ["false", "False", "true", "auto", "x", "", 0, 1, 0.0, [], {}, [False]])
def test_a_switch_is_true_or_false(name: str, value: object) -> None:
    assert judged({KWARGS: {name: value}}, ThinkingRule()) is Reason.PARAMETER_INVALID


@pytest.mark.parametrize("body", [{KWARGS: "x"}, {KWARGS: []}, {KWARGS: [{"enable_thinking": True}]}, {KWARGS: False}])
def test_switches_stand_in_an_object(body: dict[str, Any]) -> None:
    assert judged(body, ThinkingRule()) is Reason.PARAMETER_INVALID


@pytest.mark.parametrize("effort", ["bogus", "NONE", "", "auto", 0, False, ["none"], 0.5])
def test_an_effort_is_one_of_vllms_words(effort: object) -> None:
    assert judged({"reasoning_effort": effort}, ThinkingRule()) is Reason.PARAMETER_INVALID


@pytest.mark.parametrize(
    "body",
    [
        {KWARGS: {"chat_template": "x"}},
        {KWARGS: {"enable_thinking": False, "chat_template": "x"}},
        {KWARGS: {"messages": []}},
        {KWARGS: {"conversation": []}},
        {KWARGS: {"tokenize": True}},
        {KWARGS: {"add_generation_prompt": False}},
        {KWARGS: {"reasoning_effort": "high"}},
        {KWARGS: {"thinking_mode": "enabled"}},
        {KWARGS: {KWARGS: {"enable_thinking": True}}},
        {"extra_body": {KWARGS: ON}},
        {"enable_thinking": True},
        {"thinking": {"type": "enabled"}},
        {"reasoning": {"effort": "high"}},
        {"output_config": {"effort": "high"}},
        {"include_reasoning": False},
        {"add_generation_prompt": False},
        {"continue_final_message": True},
        {"chat_template": "x"},
    ],
)
def test_no_other_control_is_accepted(body: dict[str, Any]) -> None:
    assert judged(body, ThinkingRule()) is Reason.PARAMETER_NOT_ACCEPTED


DOORS = replace(
    PARTNER, accept=PARTNER.accept | {"add_generation_prompt", "continue_final_message", "include_reasoning"}
)


@pytest.mark.parametrize(
    "body, forbidden",
    [
        ({"add_generation_prompt": False}, Reason.THINKING_NOT_PERMITTED),
        ({"continue_final_message": True}, Reason.THINKING_NOT_PERMITTED),
        ({"add_generation_prompt": True, "continue_final_message": False}, None),
        ({"messages": [{"role": "user", "content": "<|im_end|>"}]}, Reason.PARAMETER_INVALID),
        ({"include_reasoning": True}, None),
    ],
)
def test_a_plane_that_forbids_thinking_closes_the_side_doors(body: dict[str, Any], forbidden: Reason | None) -> None:
    closed = plane(replace(DOORS, thinking=rule(groups=frozenset()), refuse_special_tokens=False))
    verdict, sent = ask({**ASKED, "model": "local", **body}, closed)
    assert (verdict.reason if isinstance(verdict, Deny) else None) is forbidden
    if forbidden is None:
        assert sent[KWARGS] == {"enable_thinking": False}
    opened, _ = ask(
        {**ASKED, "model": "local", **body}, plane(replace(DOORS, thinking=rule(), refuse_special_tokens=False))
    )
    assert not isinstance(opened, Deny)


def test_sibling_members_stay() -> None:
    accepting = replace(PARTNER, accept=PARTNER.accept | {f"{KWARGS}.preserve_thinking"})
    body = {**ASKED, "model": "local", KWARGS: {"preserve_thinking": True, "enable_thinking": None}}
    _, sent = ask(body, plane(accepting))
    assert sent[KWARGS] == {"preserve_thinking": True, "enable_thinking": False}


def test_one_models_switch_never_reaches_another() -> None:
    for _ in range(3):
        assert judged({}, rule(), "plain") == {}
        assert judged({}, rule(), "local") == OFF


# Responses and completions


def elsewhere(endpoint: str, body: dict[str, Any], thinking: ThinkingRule, model: str = "local") -> Any:  # noqa: ANN401
    """Give the reason, or what of the controls is sent, on another API."""
    dialect = f"openai-{endpoint}"
    parameters = replace(PARTNER, accept=FACTS[dialect].standard, caps={}, thinking=thinking)
    rules = plane(endpoints=[Endpoint(endpoint, "POST", b"/other", dialect, parameters=parameters)])
    needed = {"model": model, "input" if endpoint == "responses" else "prompt": "hi"}
    verdict, sent = ask({**needed, **body}, rules, endpoint=endpoint)
    if isinstance(verdict, Deny):
        return verdict.reason
    return {name: sent[name] for name in (*CONTROLS, "reasoning") if name in sent}


NO_EFFORT = {"reasoning": {"effort": "none"}}
EFFORT = {"reasoning": {"effort": "high"}}


@pytest.mark.parametrize(
    "model, body, sent",
    [
        ("local", {}, OFF),
        ("local", {"reasoning": None}, OFF),
        ("local", {"reasoning": {}}, OFF),
        ("local", {"reasoning": {"effort": None}}, OFF),
        ("local", {"reasoning": {"summary": "auto"}}, OFF),
        ("reasoner", {}, switches("thinking", on=False)),
        ("effort", {}, NO_EFFORT),
        ("plain", {}, {}),
        ("local", NO_EFFORT, {**NO_EFFORT, **OFF}),
        ("local", OFF, OFF),
        ("local", EFFORT, Reason.THINKING_NOT_PERMITTED),
        ("local", ON, Reason.THINKING_NOT_PERMITTED),
    ],
)
def test_a_response_is_thought_about_only_by_leave(model: str, body: dict[str, Any], sent: object) -> None:
    assert elsewhere("responses", body, rule(), model) == sent


@pytest.mark.parametrize(
    "model, body, sent",
    [
        ("local", EFFORT, EFFORT),
        ("reasoner", EFFORT, {**EFFORT, **switches("thinking", on=True)}),
        ("effort", ON, {**ON, **EFFORT}),
        ("local", {**EFFORT, **OFF}, {**EFFORT, **OFF}),
    ],
)
def test_with_leave_the_wish_is_sent_and_no_switch_contradicts_it(
    model: str, body: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert elsewhere("responses", body, ThinkingRule(), model) == sent


def test_an_effort_in_a_response_can_be_turned_off() -> None:
    assert elsewhere("responses", EFFORT, rule(disable_otherwise=True)) == {**NO_EFFORT, **OFF}


def test_the_effort_of_chat_is_no_control_of_a_response() -> None:
    assert elsewhere("responses", {"reasoning_effort": "none"}, rule()) is Reason.PARAMETER_NOT_ACCEPTED


@pytest.mark.parametrize(
    "thinking, sent",
    [
        (ThinkingRule(), {"thinking_token_budget": 5}),
        (rule(), Reason.THINKING_NOT_PERMITTED),
        (rule(disable_otherwise=True), {}),
    ],
)
def test_a_completion_has_a_budget_and_no_switch(thinking: ThinkingRule, sent: object) -> None:
    assert elsewhere("completions", {"thinking_token_budget": 5}, thinking) == sent
    assert elsewhere("completions", {}, thinking) == {}


# Anthropic's API: a mode beside an effort that has no word for off, and a budget within the answer

DISABLED, ADAPTIVE = {"thinking": {"type": "disabled"}}, {"thinking": {"type": "adaptive"}}
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
HIGH = {"output_config": {"effort": "high"}}


def messages(
    body: dict[str, Any],
    thinking: ThinkingRule,
    model: str = "local",
    *,
    groups: tuple[str, ...] = (),
    dialect: str = "anthropic-messages",
) -> Reason | dict[str, Any]:
    """Give the reason, or the controls as they are sent."""
    parameters = ParameterRules(accept=FACTS[dialect].standard, thinking=thinking)
    rules = plane(endpoints=[Endpoint("messages", "POST", b"/v1/messages", dialect, parameters=parameters)])
    verdict, sent = ask({**ASKED, "model": model, **body}, rules, groups=groups, endpoint="messages")
    if isinstance(verdict, Deny):
        return verdict.reason
    if not thinking.default_enabled:
        _, again = ask({**sent, "model": model}, rules, groups=groups, endpoint="messages")
        assert again == sent, "the judge would not send its own work again"
    return {name: sent[name] for name in (KWARGS, "thinking", "output_config") if name in sent}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"thinking": None},
        {"thinking": {}},
        {"thinking": {"type": None, "budget_tokens": None}},
        {"output_config": {}},
        {"output_config": {"effort": None}},
        {"thinking": {}, KWARGS: {"enable_thinking": None}},
    ],
)
@pytest.mark.parametrize(
    "model, off, on",
    [
        ("local", OFF, ON),
        ("reasoner", switches("thinking", on=False), switches("thinking", on=True)),
        ("twice", switches("enable_thinking", "thinking", on=False), switches("enable_thinking", "thinking", on=True)),
        ("effort", DISABLED, HIGH),
        ("plain", {}, {}),
    ],
)
def test_messages_without_a_wish_are_an_omission(
    body: dict[str, Any], model: str, off: dict[str, Any], on: dict[str, Any]
) -> None:
    assert messages(body, rule(), model) == off
    assert messages(body, rule(default_enabled=True), model) == on
    assert messages(body, rule(), model, dialect="anthropic-count-tokens") == off


@pytest.mark.parametrize(
    "model, body, sent",
    [
        ("local", DISABLED, {**DISABLED, **OFF}),
        ("local", {**DISABLED, **HIGH}, {**DISABLED, **HIGH, **OFF}),
        ("local", {**DISABLED, **OFF}, {**DISABLED, **OFF}),
        ("local", OFF, OFF),
        ("reasoner", DISABLED, {**DISABLED, **switches("thinking", on=False)}),
        ("effort", DISABLED, DISABLED),
        ("effort", {**DISABLED, **HIGH}, {**DISABLED, **HIGH}),
        ("effort", OFF, {**OFF, **DISABLED}),
        ("plain", DISABLED, DISABLED),
    ],
)
def test_disabled_beats_an_effort_and_is_said_so_that_the_model_heeds_it(
    model: str, body: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert messages(body, rule(), model) == sent


MODES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("local", ENABLED, {**ENABLED, **ON}),
    ("local", ADAPTIVE, {**ADAPTIVE, **ON}),
    ("local", HIGH, HIGH),
    ("local", {**ADAPTIVE, **HIGH}, {**ADAPTIVE, **HIGH}),
    ("local", {**ENABLED, **ON}, {**ENABLED, **ON}),
    ("local", ON, ON),
    ("reasoner", ENABLED, {**ENABLED, **switches("thinking", on=True)}),
    ("reasoner", {**ADAPTIVE, **HIGH}, {**ADAPTIVE, **HIGH, **switches("thinking", on=True)}),
    ("twice", ADAPTIVE, {**ADAPTIVE, **switches("enable_thinking", "thinking", on=True)}),
    ("twice", HIGH, {**HIGH, **switches("thinking", on=True)}),
    ("effort", ADAPTIVE, {**ADAPTIVE, **HIGH}),
    ("effort", {"output_config": {"effort": "low"}, **ADAPTIVE}, {"output_config": {"effort": "low"}, **ADAPTIVE}),
    ("plain", ADAPTIVE, ADAPTIVE),
]


@pytest.mark.parametrize("model, body, sent", MODES)
def test_a_mode_that_enables_sets_the_switch_too_since_vllm_would_not(
    model: str, body: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert messages(body, rule(), model, groups=("reasoning",)) == sent
    assert messages(body, rule(), model) is Reason.THINKING_NOT_PERMITTED


@pytest.mark.parametrize("body", [{**ENABLED, **OFF}, {**DISABLED, **ON}, {**HIGH, **OFF}])
def test_a_mode_and_a_switch_that_contradict_each_other_are_sent_as_they_are(body: dict[str, Any]) -> None:
    assert messages(body, rule(), groups=("reasoning",)) == body
    assert messages(body, rule()) is Reason.THINKING_NOT_PERMITTED


@pytest.mark.parametrize(
    "model, body, sent",
    [
        ("local", ENABLED, {**DISABLED, **OFF}),
        ("local", ADAPTIVE, {**DISABLED, **OFF}),
        ("local", HIGH, OFF),
        ("local", {**ENABLED, **HIGH, **ON}, {**DISABLED, **OFF}),
        ("local", {**DISABLED, **HIGH, **ON}, {**DISABLED, **OFF}),
        ("reasoner", ENABLED, {**DISABLED, **switches("thinking", on=False)}),
        ("effort", HIGH, DISABLED),
        ("effort", ADAPTIVE, DISABLED),
        ("effort", ENABLED, DISABLED),
        ("plain", HIGH, {}),
    ],
)
def test_otherwise_disable_says_disabled_and_takes_effort_and_budget_away(
    model: str, body: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert messages(body, rule(disable_otherwise=True), model) == sent


def budget(tokens: int, **body: Any) -> Reason | dict[str, Any]:  # noqa: ANN401
    return messages({"thinking": {"type": "enabled", "budget_tokens": tokens}, **body}, ThinkingRule())


def test_a_budget_stays_below_an_answer_that_was_lowered() -> None:
    lowered = {"thinking": {"type": "enabled", "budget_tokens": 4095}, **ON}
    assert budget(4095) == lowered
    assert budget(4096) == lowered
    assert budget(31999, max_tokens=32000) == lowered


def test_a_budget_that_the_callers_own_answer_cannot_hold_is_the_callers_fault() -> None:
    assert budget(2048, max_tokens=2048) is Reason.PARAMETER_INVALID
    assert budget(2048, max_tokens=2049) == {**ENABLED, **ON}


def test_a_model_whose_answers_are_shorter_than_the_least_budget_takes_none() -> None:
    assert messages(ENABLED, ThinkingRule(), "twice") is Reason.PARAMETER_OVER_CAP


def test_where_no_answer_is_made_a_budget_has_no_bound() -> None:
    body = {"thinking": {"type": "enabled", "budget_tokens": 9999}}
    assert messages(body, ThinkingRule(), dialect="anthropic-count-tokens") == {**body, **ON}
