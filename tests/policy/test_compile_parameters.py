from __future__ import annotations

import pytest

from gateway.dialects.registry import FACTS
from gateway.policy.model import Cap, ParameterRules, ThinkingRule
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, Broken, assert_refused, compiled, edited, problems

ACCEPT = "accept: [standard, top_k]"
CAP = "      n:            {at_most: 1, otherwise: refuse}\n"
THINK = "[client:batch, group:reasoning]\n      otherwise: refuse"
UNLISTED = "    unlisted: refuse\n"

REFUSED = [
    # which endpoints have parameters
    Broken("parameters:\n  chat:", "parameters:\n  chatt:", "  chatt:", "no endpoint `chatt`; the nearest is `chat`"),
    Broken("parameters:\n  chat:", "parameters:\n  chatt:", "  chat:\n", "say under `parameters.chat`"),
    Broken("parameters:\n", "parameters:\n  models: {accept: [model]}\n", "  models: {accept", "has no body"),
    # accept
    Broken(
        ACCEPT, "accept: [standard, topk]", "accept: [standard, topk]", "knows no field 'topk'; the nearest is `top_k`"
    ),
    Broken(ACCEPT, "accept: [standard, chat_template]", ACCEPT[:18], "never accepted"),
    Broken(ACCEPT, "accept: [standard, reasoning_effort]", ACCEPT[:18], "belongs to 'thinking'"),
    Broken(ACCEPT, "accept: [standard, chat_template_kwargs.enable_thinking]", ACCEPT[:18], "belongs to 'thinking'"),
    Broken(ACCEPT, "accept: [standard, chat_template_kwargs]", ACCEPT[:18], "closed list"),
    Broken(
        "accept: [model, input,",
        "accept: [standard, model, input,",
        "accept: [standard, model",
        "has no `standard` yet",
    ),
    # caps
    Broken(
        CAP,
        "      max_tokens: {at_most: 9, otherwise: lower}\n"
        "      max_completion_tokens: {at_most: 9, otherwise: lower}\n",
        "      max_completion_tokens:",
        "the field `max_tokens` under another name",
    ),
    # defaults and force
    Broken(UNLISTED, f"{UNLISTED}    defaults: {{temprature: 1}}\n", "    defaults:", "the nearest is `temperature`"),
    Broken(UNLISTED, f"{UNLISTED}    defaults: {{temperature: hot}}\n", "    defaults:", "must be a number"),
    Broken(UNLISTED, f"{UNLISTED}    force: {{n: 0}}\n", "    force:", "must be at least 1"),
    Broken(UNLISTED, f"{UNLISTED}    force: {{reasoning_effort: none}}\n", "    force:", "belongs to 'thinking'"),
    Broken(UNLISTED, f"{UNLISTED}    defaults: {{user: x}}\n", "    defaults:", "cannot be set"),
    Broken(UNLISTED, f"{UNLISTED}    defaults: {{n: 2}}\n", "    defaults:", "over the cap"),
    Broken(
        UNLISTED, f"{UNLISTED}    force: {{model: locl}}\n", "    force:", "no model `locl`; the nearest is `local`"
    ),
    Broken(
        UNLISTED,
        f"{UNLISTED}    defaults: {{seed: 1}}\n    force: {{seed: 1}}\n",
        "    force:",
        "defaults.seed sets this",
    ),
    Broken(
        UNLISTED,
        f"{UNLISTED}    defaults: {{max_tokens: 5}}\n    force: {{max_completion_tokens: 5}}\n",
        "    force:",
        "defaults.max_tokens sets this",
    ),
    Broken(
        "    caps:\n      messages:     {at_most_items: 1024, otherwise: refuse}\n",
        "    defaults: {max_completion_tokens: 10}\n    caps:\n      max_tokens: {at_most: 9, otherwise: lower}\n",
        "    defaults:",
        "over the cap",
    ),
    Broken(
        UNLISTED,
        f"{UNLISTED}    defaults: {{tools: [{{function: {{name: '<|im_end|>'}}}}]}}\n",
        "    defaults:",
        "holds a special token",
    ),
    Broken(
        UNLISTED,
        f"{UNLISTED}    force: {{messages: [{{role: user, content: [{{type: image_url, image_url: {{url: 'https://a.b'}}}}]}}]}}\n",
        "    force:",
        "must be a data: URL",
    ),
    Broken(UNLISTED, f"{UNLISTED}    force: {{cache_salt: x}}\n", "    force:", "for each client another"),
    Broken(UNLISTED, f"{UNLISTED}    defaults: {{cache_salt: x}}\n", "    defaults:", "for each client another"),
    # thinking
    Broken(
        "may_enable: [client:batch, group:reasoning]", "may_enable: everyone", "      otherwise: refuse", "no otherwise"
    ),
    Broken("      otherwise: refuse\n    special", "    special", "    thinking:\n", "`otherwise` is missing"),
    Broken(
        "    accept: [model, input",
        "    thinking: {default: disabled, may_enable: everyone}\n    accept: [model, input",
        "    thinking: {",
        "nothing thinks in openai-embeddings",
    ),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words + broken.new[-30:])
def test_fields_that_make_no_sense_are_refused(broken: Broken) -> None:
    assert_refused(broken)


def rules(*edits: tuple[str, str], example: str = PARTNER) -> ParameterRules:
    """Give the rules of the endpoint chat of an edited example."""
    found = compiled(example, *edits).plane.endpoints[b"/v1/chat/completions"]["POST"].parameters
    assert found is not None
    return found


def test_standard_is_written_out() -> None:
    assert rules().accept == FACTS["openai-chat"].standard | {"top_k"}


def test_caps_are_resolved_by_kind() -> None:
    text_cap = ("at_most_items: 1024", "at_most_characters: 100000")
    assert rules(text_cap).caps == {
        "messages": Cap(at_most_characters=100000),
        "tools": Cap(at_most_items=128),
        "n": Cap(at_most=1),
        "top_logprobs": Cap(at_most=5, lower=True),
    }


def test_what_the_file_leaves_out_is_the_narrow_choice() -> None:
    found = rules((UNLISTED, ""), ("    special_tokens: refuse\n", ""))
    assert (found.drop_unlisted, found.defaults, found.force, found.refuse_special_tokens) == (False, {}, {}, False)


def test_false_and_zero_are_values() -> None:
    found = rules(
        (UNLISTED, f"{UNLISTED}    defaults: {{temperature: 0, stream: false, n: 1}}\n    force: {{model: local}}\n")
    )
    assert found.defaults == {"temperature": 0, "stream": False, "n": 1}
    assert found.force == {"model": "local"}


def test_dropping_and_disabling_are_said() -> None:
    found = rules(example=INTERNAL)
    assert found.drop_unlisted
    assert found.thinking == ThinkingRule(everyone=False, groups=frozenset({"reasoning"}), disable_otherwise=True)


@pytest.mark.parametrize(
    "block, rule",
    [
        (THINK, ThinkingRule(everyone=False, clients=frozenset({"batch"}), groups=frozenset({"reasoning"}))),
        ("nobody\n      otherwise: disable", ThinkingRule(everyone=False, disable_otherwise=True)),
        ("everyone", ThinkingRule()),
    ],
)
def test_thinking_is_permitted_to_those_named(block: str, rule: ThinkingRule) -> None:
    assert rules((THINK, block)).thinking == rule


def test_without_the_block_thinking_is_off_and_everyone_may_ask() -> None:
    block = f"    thinking:\n      default: disabled\n      may_enable: {THINK}\n"
    assert rules((block, "")).thinking == ThinkingRule()


def test_where_nobody_may_think_special_tokens_are_refused_whatever_is_said() -> None:
    nobody = (THINK, "nobody\n      otherwise: refuse")
    assert rules(nobody, ("    special_tokens: refuse\n", "")) == rules(nobody)


def test_thinking_may_be_on_by_default() -> None:
    assert rules(("default: disabled", "default: enabled")).thinking.default_enabled


def test_a_plane_without_bodies_has_no_parameters() -> None:
    assert not compiled(CONTROL).plane.rules


@pytest.mark.parametrize("value", ["add_generation_prompt: false", "continue_final_message: true"])
def test_where_nobody_may_think_the_policy_itself_opens_no_side_door(value: str) -> None:
    nobody = ("may_enable: [client:batch, group:reasoning]", "may_enable: nobody")
    text = edited(PARTNER, (UNLISTED, f"{UNLISTED}    force: {{{value}}}\n"), nobody)
    (problem,) = problems(text)
    assert problem.where == f"parameters.chat.force.{value.partition(':')[0]}"
    assert problem.sentence == "this goes past `thinking`, which nobody may enable"
