from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.dialects.fields import Table, Treatment, load

CHAT = load("openai_chat")
EMBEDDINGS = load("openai_embeddings")
RESPONSES = load("openai_responses")
ROUTES = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": load("openai_completions"),
    "/v1/responses": RESPONSES,
    "/v1/embeddings": EMBEDDINGS,
}
CATALOGUES = sorted(Path(__file__).parent.glob("data/fields-*.json"))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("catalogue", CATALOGUES, ids=lambda path: path.stem)
def test_every_field_that_a_vllm_version_knows_has_a_treatment(catalogue: Path, route: str) -> None:
    version = catalogue.stem.removeprefix("fields-")
    known = {
        field.name for field in ROUTES[route].fields.values() if "." not in field.name and version in field.versions
    }
    assert known == set(json.loads(catalogue.read_text("utf-8"))[route])


def test_both_supported_versions_have_a_catalogue() -> None:
    assert [path.stem for path in CATALOGUES] == ["fields-0.32", "fields-0.33"]


@pytest.mark.parametrize("table", ROUTES.values(), ids=ROUTES.keys())
def test_every_field_says_why_in_a_sentence(table: Table) -> None:
    for field in table.fields.values():
        assert field.why.endswith("."), field.name
        assert field.kinds, field.name


@pytest.mark.parametrize("table", ROUTES.values(), ids=ROUTES.keys())
def test_what_is_standard_or_required_can_be_accepted(table: Table) -> None:
    acceptable = {
        field.name
        for field in table.fields.values()
        if field.treatment in {Treatment.PASS, Treatment.CAP, Treatment.DROP}
    }
    assert table.standard <= acceptable
    assert set(table.required) <= acceptable
    assert set(table.answer_tokens) <= acceptable


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
    assert ROUTES["/v1/completions"].answer_default == 16
    assert CHAT.answer_default is None
