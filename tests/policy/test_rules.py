from __future__ import annotations

import pytest

from gateway.dialects.checks import Inspection
from gateway.dialects.registry import FACTS
from gateway.policy.model import Cap, Narrowing, ParameterRules, ThinkingRule
from gateway.policy.rules import rules_for
from gateway.reasons import Malformed

CHAT = FACTS["openai-chat"]
NOBODY = ThinkingRule(everyone=False)


def test_controls_of_thinking_are_judged_without_being_listed() -> None:
    rules = rules_for(ParameterRules(frozenset({"model", "messages"})), CHAT, frozenset())
    assert set(rules.checks) == {
        "model",
        "messages",
        "chat_template_kwargs",
        "reasoning_effort",
        "thinking_token_budget",
    }
    assert rules.closed == {"chat_template_kwargs": {"enable_thinking", "thinking"}}
    assert rules.thinking == ThinkingRule()


def test_a_closed_list_holds_the_members_that_were_accepted() -> None:
    rules = rules_for(ParameterRules(CHAT.standard | {"structured_outputs.json"}), CHAT, frozenset())
    assert rules.closed["stream_options"] == {"include_usage"}
    assert rules.closed["structured_outputs"] == {"json"}
    assert "stream_options" in rules.checks


def test_caps_on_the_longest_answer_are_one_kind_whatever_their_name() -> None:
    caps = {"n": Cap(at_most=1), "max_tokens": Cap(at_most=2), "max_completion_tokens": Cap(at_most=3)}
    rules = rules_for(ParameterRules(CHAT.standard, caps=caps), CHAT, frozenset())
    assert rules.caps == (("n", Cap(at_most=1)),)
    assert rules.token_caps == (Cap(at_most=2), Cap(at_most=3))


@pytest.mark.parametrize(
    "dialect, field, name, value",
    [
        ("openai-chat", "user", "user", "u"),
        ("openai-chat", "store", "store", True),
        ("openai-responses", "text", "text.verbosity", {"verbosity": "low"}),
        ("openai-responses", "reasoning", "reasoning.summary", {"summary": "auto"}),
    ],
)
def test_what_only_a_hosted_service_uses_is_looked_at_and_never_sent(
    dialect: str, field: str, name: str, value: object
) -> None:
    rules = rules_for(ParameterRules(FACTS[dialect].standard), FACTS[dialect], frozenset())
    inspection = Inspection()
    rules.checks[field](value, inspection)
    assert list(inspection.dropped) == [name]


def test_some_values_are_the_same_for_everybody_and_some_fields_are_refused_to_everybody() -> None:
    rules = rules_for(ParameterRules(frozenset({"input"}), force={"seed": 1}), FACTS["openai-responses"], frozenset())
    assert rules.force == (("seed", 1), ("store", False))
    rules.checks["store"](True, Inspection())
    with pytest.raises(Malformed):
        rules.checks["previous_response_id"]("resp_1", Inspection(drop_unlisted=True))


def test_an_api_may_have_a_length_of_its_own_for_an_answer() -> None:
    lengths = {
        name: rules_for(ParameterRules(frozenset()), FACTS[name], frozenset()).answer_default
        for name in ("openai-completions", "openai-chat")
    }
    assert lengths == {"openai-completions": 16, "openai-chat": None}


def test_a_plane_that_forbids_thinking_refuses_special_tokens() -> None:
    assert rules_for(ParameterRules(CHAT.standard, thinking=NOBODY), CHAT, frozenset()).refuse_special_tokens
    assert not rules_for(ParameterRules(CHAT.standard), CHAT, frozenset()).refuse_special_tokens


def test_a_dialect_that_cannot_think_has_no_rule_about_it() -> None:
    rules = rules_for(
        ParameterRules(frozenset({"model", "input"}), thinking=NOBODY), FACTS["openai-embeddings"], frozenset({"h"})
    )
    assert rules.thinking is None
    assert not rules.refuse_special_tokens
    assert rules.required == ("input",)
    assert rules.media_hosts == {"h"}


def test_what_a_client_may_less_is_taken_from_its_rules() -> None:
    known = ParameterRules(CHAT.standard, caps={"n": Cap(at_most=4), "max_tokens": Cap(at_most=9)})
    narrowing = Narrowing(
        frozenset({"tools", "stream_options.include_usage"}),
        (("n", Cap(at_most=2, lower=True)), ("max_completion_tokens", Cap(at_most=5))),
        NOBODY,
    )
    rules = rules_for(known, CHAT, frozenset(), narrowing)
    whole = rules_for(known, CHAT, frozenset())
    assert whole.checks.keys() - rules.checks.keys() == {"tools", "stream_options"}
    assert rules.caps == (("n", Cap(at_most=4)), ("n", Cap(at_most=2, lower=True)))
    assert rules.token_caps == (Cap(at_most=9), Cap(at_most=5))
    assert (rules.thinking, rules.refuse_special_tokens) == (NOBODY, True)
    assert rules_for(known, CHAT, frozenset(), Narrowing()).thinking == known.thinking


def test_what_is_said_to_the_model_is_told_from_parameters_and_has_its_caps() -> None:
    facts = FACTS["openai-completions"]
    accept = frozenset({"model", "prompt", "suffix", "max_tokens"})
    long, prompt = Cap(at_most=9), Cap(at_most_characters=9)
    rules = rules_for(ParameterRules(accept, caps={"max_tokens": long, "prompt": prompt}), facts, frozenset())
    assert rules.said == ("prompt", "suffix")
    assert rules.said_caps == (("prompt", prompt),)
    assert rules_for(ParameterRules(accept, force={"suffix": "."}), facts, frozenset()).said == ("prompt",)
    assert rules_for(ParameterRules(frozenset()), FACTS["openai-transcriptions"], frozenset()).said == ()
