"""A LiteLLM configuration becomes models and engines; what cannot is named, and no key is ever written."""

from __future__ import annotations

import pytest
import yaml

from gateway.addresses import engine_address
from gateway.policy.model import Model
from gateway.review.imported import Imported, ImportedEngine
from gateway.review.litellm import UNBOUNDED, translate
from gateway.review.litellm_file import NotImportable, read


def entry(
    name: str = "local", model: str = "hosted_vllm/Qwen", base: str | None = "http://127.0.0.1:8000/v1", **more: object
) -> dict[str, object]:
    """Write one entry; ``info`` is its model_info, everything else goes beside the model."""
    info = more.pop("info", {"max_output_tokens": 9})
    params = {"model": model, **({"api_base": base} if base else {}), **more}
    return {"model_name": name, "litellm_params": params, **({"model_info": info} if info else {})}


def imported(*entries: object, environ: dict[str, str] | None = None, **sections: object) -> Imported:
    text = yaml.safe_dump({"model_list": list(entries), **sections}, sort_keys=False)
    return translate(read(text, "c.yaml"), environ or {})


def wrong(*entries: object, environ: dict[str, str] | None = None, **sections: object) -> str:
    with pytest.raises(NotImportable) as refused:
        imported(*entries, environ=environ, **sections)
    return str(refused.value)


def lost(result: Imported) -> str:
    return "\n".join(map(str, result.lost))


def test_an_entry_becomes_a_model_on_an_engine_of_its_own() -> None:
    result = imported(entry(model="openai/org/Qwen", base="https://gpu.internal/v1/", api_key="os.environ/UP"))
    assert result.models == {"local": Model("local", "local", "org/Qwen", most_tokens=9)}
    assert result.engines == {"local": ImportedEngine((engine_address("https://gpu.internal"),), "UP")}
    assert not result.lost


def test_several_entries_of_one_name_are_replicas() -> None:
    result = imported(entry(), entry(base="http://127.0.0.1:8001"), entry(base="http://127.0.0.1:8000"))
    assert [str(one) for one in result.engines["local"].addresses] == ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert not result.lost


def test_names_on_the_same_replicas_share_an_engine() -> None:
    result = imported(entry("a"), entry("b", model="openai/lora"), entry("c", base="http://127.0.0.1:8001"))
    assert {alias: model.engine for alias, model in result.models.items()} == {"a": "a", "b": "a", "c": "c"}


@pytest.mark.parametrize(
    "other", [{"model": "hosted_vllm/other"}, {"api_key": "os.environ/OTHER"}, {"info": {"max_output_tokens": 8}}]
)
def test_an_entry_that_is_no_replica_of_the_first_is_named(other: dict[str, str]) -> None:
    result = imported(entry(), entry(base="http://127.0.0.1:8001", **other))
    assert len(result.engines["local"].addresses) == 1
    assert "c.yaml:" in lost(result)
    assert "model_list[1]: not carried over: replicas of one alias" in lost(result)


def test_engines_are_named_as_settings_can_spell_it() -> None:
    names = ["Qwen/Qwen3.5--32B", "qwen-qwen3.5-32b", "7b", "___"]
    bases = [f"http://127.0.0.1:{8000 + number}" for number in range(len(names))]
    result = imported(*(entry(name, base=base) for name, base in zip(names, bases, strict=True)))
    assert list(result.engines) == ["qwen-qwen3-5-32b", "qwen-qwen3-5-32b-2", "engine-7b", "engine"]


def test_a_key_is_a_variable_and_never_a_value() -> None:
    environ = {"UP": "sk-real", "HOSTED_VLLM_API_KEY": "sk-default"}
    result = imported(entry(api_key="os.environ/UP"), entry("b", base="http://127.0.0.1:8001"), environ=environ)
    assert [engine.key for engine in result.engines.values()] == ["UP", "HOSTED_VLLM_API_KEY"]
    assert "sk-" not in result.as_text() + result.as_json() + repr(result)


@pytest.mark.parametrize("key", ["none", "EMPTY", ""])
def test_a_word_in_place_of_a_key_is_no_key(key: str) -> None:
    assert imported(entry(api_key=key)).engines["local"].key is None


@pytest.mark.parametrize("key", ["sk-hard-coded", "os.environ/", "os.environ/not a name", 12345])
def test_a_key_in_the_file_is_an_error_that_says_how_to_move_it(key: object) -> None:
    said = wrong(entry(api_key=key))
    assert said.startswith("c.yaml:6:5: model_list[0].litellm_params.api_key: ")
    assert "write `api_key: os.environ/ENGINE_KEY` here" in said
    assert "sk-hard-coded" not in said


def test_a_key_among_the_variables_of_the_file_is_in_the_file_all_the_same() -> None:
    said = wrong(entry(api_key="os.environ/UP"), environment_variables={"UP": "sk-hidden"})
    assert "environment_variables.UP: the key itself stands in the file" in said
    assert "sk-hidden" not in said


def test_a_variable_in_place_of_an_address_is_followed() -> None:
    environ = {"BASE": "http://127.0.0.1:8009/v1", "HOSTED_VLLM_API_BASE": "http://127.0.0.1:8008"}
    result = imported(entry(base="os.environ/BASE"), entry("b", base=None), environ=environ)
    assert [str(engine.addresses[0]) for engine in result.engines.values()] == [
        "http://127.0.0.1:8009",
        "http://127.0.0.1:8008",
    ]


@pytest.mark.parametrize(
    "reference, words",
    [("os.environ/BASE", "the variable BASE is not set"), ("os.environ/ü", "the variable is not set")],
)
def test_a_variable_that_is_not_set_is_an_error_with_its_place(reference: str, words: str) -> None:
    assert f"model_list[0].litellm_params.api_base: {words}" in wrong(entry(base=reference))


@pytest.mark.parametrize("base", ["http://me:secret@gpu:8000/v1", "http://gpu:8000/proxy/v1", "gpu:8000", "//v1"])
def test_an_address_that_is_no_origin_is_an_error_without_its_value(base: str) -> None:
    said = wrong(entry(base=base))
    assert "model_list[0].litellm_params.api_base: an engine's address must" in said
    assert "secret" not in said


@pytest.mark.parametrize("value, expected", [(100, 100), ("os.environ/TPM", 100)])
def test_limits_are_numbers_wherever_they_stand(value: object, expected: int) -> None:
    result = imported(entry(tpm=value), environ={"TPM": "100"})
    assert result.limits == {"local": {"tokens_per_minute": expected}}


def test_the_limits_of_replicas_add_up() -> None:
    result = imported(entry(rpm=5, max_parallel_requests=2), entry(base="http://127.0.0.1:8001", rpm=7))
    assert result.limits == {"local": {"requests_per_minute": 12, "concurrent_requests": 2}}


@pytest.mark.parametrize("value", ["abc", "os.environ/TPM", True, 0, 1.5, "1e3"])
def test_what_is_no_number_is_an_error_with_its_place(value: object) -> None:
    said = wrong(entry(tpm=value), environ={"TPM": "abc"})
    assert said == "c.yaml:6:5: model_list[0].litellm_params.tpm: this must be a whole number from 1 up, in digits"


def test_the_longest_answer_is_the_models_or_the_default_of_the_entry() -> None:
    result = imported(entry("a", max_tokens=7), entry("b", max_tokens=7, info=None))
    assert [model.most_tokens for model in result.models.values()] == [9, 7]
    assert "litellm_params.max_tokens: not carried over" in lost(result)


def test_a_model_without_a_bound_gets_one_and_it_is_said() -> None:
    result = imported(entry(info=None))
    assert result.models["local"].most_tokens == UNBOUNDED
    assert f"most_tokens became {UNBOUNDED}" in lost(result)


@pytest.mark.parametrize("mode", ["embedding", "rerank"])
def test_a_model_that_generates_nothing_has_no_longest_answer(mode: str) -> None:
    assert imported(entry(info={"mode": mode})).models["local"].most_tokens is None


@pytest.mark.parametrize(
    "left_out, words",
    [
        (entry("b", model="azure/gpt"), "only openai/… and hosted_vllm/…"),
        (entry("b", model="gpt", custom_llm_provider="azure"), "only openai/… and hosted_vllm/…"),
        (entry("b", model="openai/gpt-4o", base=None), "without api_base"),
        (entry("openai/*", model="openai/*"), "patterns do not exist"),
        (entry("b", model="openai/*"), "patterns do not exist"),
        (entry("b", info={"mode": "image_generation"}), "of this mode"),
    ],
)
def test_an_entry_without_a_counterpart_is_left_out_and_named_once(left_out: object, words: str) -> None:
    result = imported(entry(), left_out)
    assert list(result.models) == ["local"]
    (problem,) = result.lost
    assert problem.where.startswith("model_list[1]")
    assert words in problem.sentence


@pytest.mark.parametrize("model, provider", [("Qwen", "openai"), ("openai/Qwen", "openai"), ("Qwen", None)])
def test_the_provider_may_stand_beside_the_model(model: str, provider: str | None) -> None:
    more = {} if provider is None else {"custom_llm_provider": provider}
    assert imported(entry(model=model, **more)).models["local"].served_as == "Qwen"


def test_further_names_of_a_model_are_models_too() -> None:
    aliases = {"fast": "local", "slow": {"model": "local", "hidden": True}}
    result = imported(entry(), router_settings={"model_group_alias": aliases})
    assert result.models["fast"] == Model("fast", "local", "Qwen", most_tokens=9)
    assert result.models["slow"].engine == "local"
    assert not result.lost


def test_a_further_name_of_nothing_is_named() -> None:
    result = imported(entry(), router_settings={"model_group_alias": {"fast": "elsewhere"}})
    assert "router_settings.model_group_alias.fast: not carried over" in lost(result)
    assert not imported(entry(), router_settings={"model_group_alias": 3}).models.get("fast")


@pytest.mark.parametrize("bad", [{"model_name": "a"}, {"litellm_params": {"model": "openai/x"}}, {"model_name": 3}])
def test_an_entry_without_name_or_model_is_an_error(bad: object) -> None:
    assert "model_list[0]: an entry needs model_name and litellm_params.model" in wrong(bad)


@pytest.mark.parametrize("text", ["a: 1\n", "model_list: {}\n", "model_list: [3]\n"])
def test_a_file_without_a_list_of_models_is_an_error(text: str) -> None:
    with pytest.raises(NotImportable, match="model_list: write a list of models"):
        translate(read(text, "c.yaml"), {})


def test_everything_wrong_is_said_at_once() -> None:
    said = wrong(entry(api_key="sk-1", tpm="x"), entry("b", base="http://x/y"))
    assert len(said.splitlines()) == 3
