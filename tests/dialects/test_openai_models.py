from __future__ import annotations

import json

import pytest

from gateway.dialects.call import Call
from gateway.dialects.openai_models import ModelEntry, OpenAIModels, ServedModel, model_body, models_body, served_models
from gateway.reasons import Malformed, Reason

LIST = json.dumps(
    {
        "object": "list",
        "data": [
            {"id": "local", "object": "model", "created": 1700000000, "root": "/models/qwen", "max_model_len": 32768},
            {"id": "lora", "created": "yesterday", "root": "/adapters/a", "parent": "local", "max_model_len": None},
            {"id": 7},
            "text",
        ],
    }
).encode()


def test_what_an_engine_serves_is_read_from_its_list() -> None:
    assert served_models(LIST) == {"local": ServedModel(1700000000, 32768), "lora": ServedModel()}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"data": {}}', b"<html>", b"[" * 100_000])
def test_an_answer_that_is_no_list_is_the_engines_fault(body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        served_models(body)
    assert caught.value.reason is Reason.ENGINE_MALFORMED


def test_a_client_sees_aliases_in_the_shape_of_openai_and_no_paths() -> None:
    entries = [ModelEntry("local", 1700000000, 32768), ModelEntry("embed", 1700000000)]
    assert json.loads(models_body(entries)) == {
        "object": "list",
        "data": [
            {
                "id": "local",
                "object": "model",
                "created": 1700000000,
                "owned_by": "vllm",
                "max_model_len": 32768,
            },
            {"id": "embed", "object": "model", "created": 1700000000, "owned_by": "vllm"},
        ],
    }
    assert json.loads(model_body(entries[1]))["id"] == "embed"


def test_the_endpoint_takes_no_body() -> None:
    dialect = OpenAIModels("openai-models")
    assert dialect.read(b"") == Call({})
    with pytest.raises(Malformed) as caught:
        dialect.read(b"{}")
    assert caught.value.reason is Reason.BODY_MALFORMED


def test_nothing_is_sent_to_an_engine_and_nothing_counted() -> None:
    dialect = OpenAIModels("openai-model")
    assert dialect.name == "openai-model"
    assert dialect.upstream is None
    assert dialect.write(Call({}), ()) == b""
    assert dialect.usage(LIST) is None  # type: ignore[func-returns-value]  # that it is nothing is the point


def test_errors_look_like_those_of_the_other_dialects() -> None:
    dialect = OpenAIModels("openai-models")
    assert json.loads(dialect.error(Reason.DRAINING, "m", None, "id", 503))["error"]["code"] == "draining"
    assert dialect.error_event(Reason.DRAINING, "m", "id").endswith(b"\n\n")
    assert dialect.engine_message(b'{"message": "m"}') == "m"


def test_a_list_is_never_a_stream_that_waits_for_an_end() -> None:
    assert OpenAIModels("openai-models").ends(b"")


def test_a_list_has_nothing_to_leave_out() -> None:
    dialect = OpenAIModels("openai-models")
    assert (dialect.take_usage(b"x"), dialect.tells_usage) == ((None, b"x"), None)
