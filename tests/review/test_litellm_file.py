"""A configuration is read as LiteLLM reads it, and every key keeps its line."""

from __future__ import annotations

import pytest

from gateway.policy.source import LARGEST_FILE
from gateway.review.litellm_file import NotImportable, read

TEXT = """\
model_list:
  - model_name: a
    litellm_params: &shared
      model: openai/m
      drop: True
  - model_name: b
    litellm_params:
      <<: *shared
      rpm: 5
deep: {a: {b: {c: {d: {e: {f: 1}}}}}}
"""


def test_anchors_merges_and_capitals_mean_what_they_mean_to_litellm() -> None:
    file = read(TEXT, "c.yaml")
    assert file.data["model_list"][1]["litellm_params"] == {"model": "openai/m", "drop": True, "rpm": 5}


def test_every_key_and_item_has_its_place() -> None:
    file = read(TEXT, "c.yaml")
    problem = file.problem(("model_list", 1, "litellm_params", "rpm"), "no")
    assert str(problem) == "c.yaml:9:7: model_list[1].litellm_params.rpm: no"
    assert file.problem(("model_list", 1), "no").line == 6


def test_what_is_not_in_the_file_has_the_place_of_what_is_around_it() -> None:
    file = read(TEXT, "c.yaml")
    assert file.problem(("model_list", 0, "litellm_params", "api_base"), "no").line == 3
    assert (file.problem(("absent",), "no").line, file.problem(("absent",), "no").column) == (1, 1)
    assert file.problem(("deep", "a", "b", "c", "d", "e", "f"), "no").line == 10


def test_a_section_that_is_no_mapping_is_an_empty_one() -> None:
    file = read("model_list: []\nrouter_settings: 3\nother: {a: 1}\n", "c.yaml")
    assert file.section("router_settings") == file.section("absent") == {}
    assert file.section("other") == {"a": 1}


@pytest.mark.parametrize(
    "text, place, sentence",
    [
        ("", "c.yaml:1:1", "is a mapping with a model_list"),
        ("- a\n", "c.yaml:1:1", "is a mapping with a model_list"),
        ("a: [1\nb: 2\n", "c.yaml:2:2", "is not YAML"),
        ("a: !!python/object:os.system x\n", "c.yaml:1:4", "is not YAML"),
        ("a: 1\n--- \nb: 2\n", "c.yaml:2:1", "is not YAML"),
        ("a: 2001-99-99\n", "c.yaml:1:1", "is not YAML"),
        ("[" * 3000, "c.yaml:1:1", "is not YAML"),
        ("#" * (LARGEST_FILE + 1), "c.yaml:1:1", "larger than 1 MiB"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_with_a_place(text: str, place: str, sentence: str) -> None:
    with pytest.raises(NotImportable) as refused:
        read(text, "c.yaml")
    (problem,) = refused.value.problems
    assert str(problem).startswith(f"{place}: ")
    assert sentence in str(refused.value)


def test_a_file_that_holds_itself_is_read_only_so_deep() -> None:
    file = read("a: &a {b: *a}\n", "c.yaml")
    assert file.problem(("a", "b", "b"), "no").line == 1
