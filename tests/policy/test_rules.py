from __future__ import annotations

from gateway.dialects.registry import FACTS
from gateway.policy.model import Cap, Narrowing, ParameterRules, ThinkingRule
from gateway.policy.rules import rules_for

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


def test_what_only_a_hosted_service_uses_is_never_sent() -> None:
    rules = rules_for(ParameterRules(CHAT.standard), CHAT, frozenset())
    assert rules.never_sent == {"user", "metadata", "store", "service_tier"}


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
