"""Whatever a configuration states and the gateway does not carry over is named, with what to do instead."""

from __future__ import annotations

import pytest

from gateway.review.litellm_file import read
from gateway.review.litellm_losses import ADVICE, advice, losses

TEXT = """\
model_list:
  - model_name: a
    litellm_params: {model: openai/m, timeout: 5, secret_thing: sk-hidden}
    model_info: {id: x}
    extra: 1
  - model_name: b
    litellm_params: 3
litellm_settings: {drop_params: true}
general_settings: 7
credential_list: [{credential_name: c}]
"""


def test_everything_that_is_not_carried_is_named_by_its_path() -> None:
    file = read(TEXT, "c.yaml")
    lost = list(losses(file, {("model_list", 0, "model_name"), ("model_list", 0, "litellm_params", "model")}))
    assert [problem.where for problem in lost] == [
        "litellm_settings.drop_params",
        "general_settings",
        "credential_list",
        "model_list[0].litellm_params.timeout",
        "model_list[0].litellm_params.secret_thing",
        "model_list[0].model_info.id",
        "model_list[0].extra",
        "model_list[1].model_name",
        "model_list[1].litellm_params",
    ]
    assert not any("hidden" in str(problem) for problem in lost)


@pytest.mark.parametrize(
    "key, words",
    [
        ("timeout", "GATEWAY_DEADLINES__"),
        ("temperature", "parameters.<endpoint>.defaults"),
        ("dimensions", "parameters.<endpoint>.defaults"),
        ("master_key", "vllm-gateway key new"),
        ("never heard of", "no counterpart"),
    ],
)
def test_the_advice_says_where_the_rule_stands_here(key: str, words: str) -> None:
    assert words in advice(key)


def test_no_advice_is_empty() -> None:
    assert all(len(sentence) > 10 for sentence in ADVICE.values())
