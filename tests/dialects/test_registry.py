from __future__ import annotations

import pytest

from gateway.dialects.registry import DIALECTS, FACTS

CHAT = FACTS["openai-chat"]

NAMES = {
    "openai-chat",
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "anthropic-count-tokens",
    "openai-embeddings",
    "openai-models",
    "openai-model",
    "rerank",
    "score",
    "openai-transcriptions",
    "openai-translations",
    "tokenize",
    "detokenize",
    "engine-sleep",
    "engine-wake",
    "engine-status",
    "engine-metrics",
}


def test_there_are_facts_for_every_name_that_a_policy_may_write() -> None:
    assert set(FACTS) == NAMES
    assert all(facts.name == name for name, facts in FACTS.items())


def test_the_served_dialects_are_those_that_there_are() -> None:
    assert {name for name, facts in FACTS.items() if facts.served} == set(DIALECTS)
    assert all(DIALECTS[name].name == name for name in DIALECTS)


def test_only_bodies_name_models_and_only_models_that_generate_are_asked_for_text() -> None:
    assert {name for name, facts in FACTS.items() if not facts.has_body} == {
        "openai-models",
        "openai-model",
        "engine-sleep",
        "engine-wake",
        "engine-status",
        "engine-metrics",
    }
    assert all(facts.uses_model == facts.has_body for facts in FACTS.values())
    assert [name for name, facts in FACTS.items() if facts.uses_model and not facts.generates] == [
        "openai-embeddings",
        "rerank",
        "score",
    ]


@pytest.mark.parametrize("name", ["model", "top_k", "user", "stream_options.include_usage", "continue_final_message"])
def test_what_may_be_accepted_needs_no_excuse(name: str) -> None:
    assert CHAT.why_not_accepted(name) is None


@pytest.mark.parametrize(
    "name, words",
    [
        ("nope", "knows no field 'nope'"),
        ("chat_template", "never accepted: A template is a program"),
        ("priority", "only the policy sets it"),
        ("thinking_token_budget", "belongs to 'thinking'"),
        ("chat_template_kwargs.enable_thinking", "belongs to 'thinking'"),
        ("stream_options", "such as stream_options.continuous_usage_stats, stream_options.include_usage"),
    ],
)
def test_what_may_not_be_accepted_comes_with_a_reason(name: str, words: str) -> None:
    assert words in (CHAT.why_not_accepted(name) or "")


@pytest.mark.parametrize(
    "name, words",
    [
        ("temperature", None),
        ("priority", None),
        ("cache_salt", None),
        ("nope", "knows no field"),
        ("chat_template", "never sent"),
        ("reasoning_effort", "belongs to 'thinking'"),
        ("user", "never sent to the engine"),
        ("structured_outputs", "closed list"),
    ],
)
def test_what_a_policy_may_set_is_what_is_sent(name: str, words: str | None) -> None:
    found = CHAT.why_not_set(name)
    assert found is None if words is None else words in (found or "")


def test_a_value_that_is_always_the_same_is_neither_accepted_nor_set() -> None:
    responses = FACTS["openai-responses"]
    words = "any caller may send it, and one value is sent whatever anybody says"
    assert responses.why_not_accepted("store") == f"'store' cannot be accepted: {words}"
    assert responses.why_not_set("store") == f"'store' cannot be set: {words}"


def test_only_raw_completions_leave_all_of_the_prompt_to_the_caller() -> None:
    assert [name for name, facts in FACTS.items() if facts.raw] == ["openai-completions"]


@pytest.mark.parametrize(
    "name, value, fault",
    [
        ("temperature", 0.2, None),
        ("temperature", "warm", "temperature must be a number"),
        ("stop", ["a", 1], "stop[1] must be text"),
        ("n", None, "'n' must have a value"),
    ],
)
def test_a_value_of_a_policy_has_the_type_of_its_field(name: str, value: object, fault: str | None) -> None:
    assert CHAT.value_fault(name, value) == fault


def test_a_value_of_a_policy_holds_nothing_that_is_never_sent() -> None:
    """What a caller sends is dropped and named; what a reviewer reads in the file must be what the engine gets."""
    blocks = [{"type": "text", "text": "x", "citations": []}]
    assert (
        FACTS["anthropic-messages"].value_fault("system", blocks)
        == "'system.citations' within it is never sent to the engine"
    )
    assert FACTS["anthropic-messages"].value_fault("system", [{"type": "text", "text": "x"}]) is None


def test_a_dialect_without_conditions_between_fields_has_none() -> None:
    assert FACTS["openai-embeddings"].unmet({"tools": []}) == []
    assert CHAT.unmet({"tools": []}) == [("tools", "")]
