from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.dialects.fields import Treatment, load
from gateway.dialects.registry import DIALECTS, FACTS, Facts

CHAT = load("openai_chat")
MESSAGES = load("anthropic_messages")
COUNT_TOKENS = load("anthropic_count_tokens")
SCORE = load("score")
RESPONSES = load("openai_responses")
CATALOGUES = sorted((Path(__file__).parents[1] / "corpus").glob("fields-*.json"))
# Each dialect whose bodies go to an engine; a new one joins by being there.
JUDGED = [FACTS[name] for name, dialect in DIALECTS.items() if dialect.upstream is not None]


def catalogue(path: Path) -> tuple[str, dict[str, set[str]]]:
    """Give a vLLM version, and the names of the fields that each of its endpoints knows."""
    return path.stem.removeprefix("fields-"), {
        route: set(names) for route, names in json.loads(path.read_text("utf-8")).items()
    }


def unreviewed(facts: Facts, version: str, known: set[str]) -> list[str]:
    """Name what a vLLM version knows and the table does not, and the reverse."""
    reviewed = {field.name for field in facts.fields.values() if "." not in field.name and version in field.versions}
    return sorted(
        [f"{facts.name}: vLLM {version} knows {name}, the table does not" for name in known - reviewed]
        + [f"{facts.name}: the table knows {name}, vLLM {version} does not" for name in reviewed - known]
    )


@pytest.mark.parametrize("facts", JUDGED, ids=lambda facts: facts.name)
@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.stem)
def test_every_field_that_a_vllm_version_knows_has_a_treatment(path: Path, facts: Facts) -> None:
    version, routes = catalogue(path)
    upstream = DIALECTS[facts.name].upstream
    assert upstream is not None
    assert unreviewed(facts, version, routes[upstream[1]]) == []


def test_both_supported_versions_have_a_catalogue() -> None:
    assert [path.stem for path in CATALOGUES] == ["fields-0.32", "fields-0.33"]


@pytest.mark.parametrize("facts", JUDGED, ids=lambda facts: facts.name)
def test_a_field_of_a_new_version_is_missed_by_its_name(facts: Facts) -> None:
    known = {field.name for field in facts.fields.values() if "." not in field.name and "0.33" in field.versions}
    assert unreviewed(facts, "0.33", known | {"shiny"}) == [f"{facts.name}: vLLM 0.33 knows shiny, the table does not"]
    assert unreviewed(facts, "0.33", known - {"model"}) == [f"{facts.name}: the table knows model, vLLM 0.33 does not"]


def test_a_field_may_have_the_values_of_another_tables_field() -> None:
    assert SCORE.fields["items"].kinds == load("rerank").fields["documents"].kinds
    assert SCORE.fields["items"].why != SCORE.fields["data_1"].why


@pytest.mark.parametrize("facts", JUDGED, ids=lambda facts: facts.name)
def test_every_field_says_why_in_a_sentence(facts: Facts) -> None:
    for field in facts.fields.values():
        assert field.why.endswith("."), field.name
        assert field.kinds, field.name


@pytest.mark.parametrize("facts", JUDGED, ids=lambda facts: facts.name)
def test_what_is_standard_or_required_can_be_accepted(facts: Facts) -> None:
    acceptable = {
        field.name
        for field in facts.fields.values()
        if field.treatment in {Treatment.PASS, Treatment.CAP, Treatment.DROP}
    }
    assert facts.standard <= acceptable
    assert set(facts.required) <= acceptable
    assert set(facts.answer_tokens) <= acceptable


def test_the_standard_of_chat_is_frozen() -> None:
    assert sorted(CHAT.standard) == [
        "frequency_penalty",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options.include_usage",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    ]


def test_the_standard_of_messages_is_frozen() -> None:
    assert sorted(MESSAGES.standard) == [
        "cache_control",
        "context_management",
        "diagnostics",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config.format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking.display",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    ]
    assert sorted(COUNT_TOKENS.standard) == [
        "cache_control",
        "context_management",
        "messages",
        "model",
        "output_config.format",
        "speed",
        "system",
        "thinking.display",
        "tool_choice",
        "tools",
    ]


def test_a_table_may_take_fields_of_another_one() -> None:
    assert COUNT_TOKENS.fields["messages"] == MESSAGES.fields["messages"]
    assert COUNT_TOKENS.fields["thinking.type"] == MESSAGES.fields["thinking.type"]
    assert "max_tokens" not in COUNT_TOKENS.fields


@pytest.mark.parametrize(
    "name, treatment",
    [
        ("model", "pass"),
        ("n", "cap"),
        ("user", "drop"),
        ("priority", "force"),
        ("chat_template", "refuse"),
        ("reasoning_effort", "thinking"),
        ("chat_template_kwargs", "members"),
        ("chat_template_kwargs.enable_thinking", "thinking"),
        ("chat_template_kwargs.chat_template", "refuse"),
        ("stream_options.continuous_usage_stats", "pass"),
        ("structured_outputs.regex", "cap"),
        ("structured_outputs.structural_tag", "refuse"),
    ],
)
def test_a_field_is_known_by_its_dotted_name(name: str, treatment: str) -> None:
    assert CHAT.fields[name].treatment == treatment
    assert CHAT.fields[name].name == name


def test_a_field_tells_its_types_words_and_bounds() -> None:
    assert CHAT.fields["stop"].kinds == {"string", "array"}
    assert CHAT.fields["truncation_side"].words == {"left", "right"}
    assert (CHAT.fields["top_logprobs"].minimum, CHAT.fields["top_logprobs"].maximum) == (0, 20)
    assert CHAT.fields["store"].versions == frozenset()
    assert CHAT.fields["return_weight_versions"].versions == {"0.33"}


def test_a_field_tells_what_is_always_sent_for_it_and_whether_it_may_be_left_out() -> None:
    assert (RESPONSES.fields["store"].treatment, RESPONSES.fields["store"].value) == (Treatment.FIXED, False)
    assert [field.name for field in RESPONSES.fields.values() if field.essential] == [
        "background",
        "previous_response_id",
        "conversation",
        "prompt",
        "previous_input_messages",
        "moderation",
    ]


def test_an_api_may_bound_an_answer_that_nobody_bounded() -> None:
    assert load("openai_completions").answer_default == 16
    assert CHAT.answer_default is None


@pytest.mark.parametrize("name, holds", [("messages", True), ("tools", False), ("model", False), ("stop", False)])
def test_a_field_tells_whether_media_can_stand_in_it(name: str, *, holds: bool) -> None:
    assert load("openai_chat").fields[name].holds_media is holds


@pytest.mark.parametrize(
    "name, says",
    [
        ("messages", True),
        ("tools", True),
        ("response_format", True),
        ("structured_outputs", False),  # judged member by member
        ("chat_template", False),  # never accepted
        ("model", False),
        ("stop", False),
    ],
)
def test_a_field_tells_whether_it_says_something_to_the_model(name: str, *, says: bool) -> None:
    assert load("openai_chat").fields[name].says is says
