from __future__ import annotations

import pytest

from tests.simulator.conftest import Asking, hi

INPUT = {"input": "hi", "max_output_tokens": 2}
OFF = {"enable_thinking": False}


async def test_invocations_takes_chats_and_prompts_for_any_model(asking: Asking) -> None:
    assert (await asking.post("/invocations", hi(model="zzz"), key=None))[0] == 200
    assert (await asking.post("/invocations", {"prompt": "hi"}, key=None))[0] == 200
    assert (await asking.post("/invocations", {"input": "hi"}, key=None))[0] == 400
    assert (await asking.post("/invocations", [], key=None))[0] == 400


async def test_invocations_looks_for_the_adapter_of_the_header(asking: Asking) -> None:
    headers = {"x-amzn-sagemaker-adapter-identifier": "foo"}
    response = await asking.client.post("/invocations", json=hi(), headers=headers)
    assert response.status_code == 404


async def test_a_batch_takes_conversations(asking: Asking) -> None:
    path = "/v1/chat/completions/batch"
    assert (await asking.post(path, hi(messages=[[{"role": "user", "content": "hi"}]])))[0] == 200
    assert (await asking.post(path, hi(messages=[])))[0] == 400


@pytest.mark.parametrize(
    "path, body, switch",
    [
        ("/v1/responses", INPUT, {"reasoning": {"effort": "none"}}),
        ("/v1/responses", {"input": hi()["messages"]}, {"chat_template_kwargs": OFF}),
        ("/tokenize", hi(), {"chat_template_kwargs": OFF}),
    ],
)
async def test_each_api_has_its_own_switch(
    asking: Asking, path: str, body: dict[str, object], switch: dict[str, object]
) -> None:
    async def tokens(value: dict[str, object]) -> int:
        status, answer = await asking.post(path, value)
        assert status == 200
        count = answer.get("usage", answer)
        return int(count.get("input_tokens", count.get("count")))

    assert await tokens({**body, "reasoning_effort": "none"}) == 14
    assert await tokens({**body, **switch}) == 20


async def test_embeddings_count_their_input(asking: Asking) -> None:
    status, answer = await asking.post("/v1/embeddings", {"input": ["a b", "c"], "dimensions": 2})
    assert status == 200
    assert [len(one["embedding"]) for one in answer["data"]] == [2, 2]
    assert answer["usage"]["prompt_tokens"] == 7
    assert (await asking.post("/pooling", {"input": [1, 2, 3]}, key=None))[1]["usage"]["prompt_tokens"] == 3
    assert (await asking.post("/v1/embeddings", {}))[0] == 400
    assert (await asking.post("/v1/embeddings", {"input": []}))[0] == 400
    for size in (0, 2**63):
        assert (await asking.post("/v1/embeddings", {"input": "a", "dimensions": size}))[0] == 400


async def test_tokens_become_text_and_text_tokens(asking: Asking) -> None:
    _, counted = await asking.post("/tokenize", {"prompt": "a b", "return_token_strs": True}, key=None)
    assert (counted["count"], counted["token_strs"]) == (3, ["t0", "t1", "t2"])
    assert (await asking.post("/detokenize", {"tokens": [1, 2]}, key=None))[1] == {"prompt": "t1 t2"}
    assert (await asking.post("/detokenize", {}, key=None))[0] == 400
