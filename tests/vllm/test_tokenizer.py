"""A real vLLM counts tokens and reads them, which it would do for anybody without a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from tests.e2e.raw_http import ask, request
from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from openai import OpenAI

    from tests.e2e.raw_http import Answer
    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

HI = [{"role": "user", "content": "hi"}]
THINKING, NOT_THINKING = 14, 20


def post(gateway: Serving, target: str, **fields: object) -> Answer:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = orjson.dumps({"model": "small", **fields})
    return ask(gateway.address, request(target, gateway.host, method="POST", headers=headers, body=body))


def test_a_text_becomes_tokens_and_these_the_text(gateway: Serving) -> None:
    text = "A gateway stands in front of a model server."
    counted = post(gateway, "/tokenize", prompt=text)
    assert (counted.status, counted.json["count"]) == (200, len(counted.json["tokens"]))
    assert post(gateway, "/detokenize", tokens=counted.json["tokens"]).json == {"prompt": text}
    assert gateway.record(counted.value("x-request-id") or "")["usage"] is None


def test_a_chat_is_counted_as_it_would_be_sent(gateway: Serving, sdk: OpenAI) -> None:
    sent = sdk.chat.completions.create(model="small", messages=[{"role": "user", "content": "hi"}], max_tokens=1)
    assert sent.usage
    assert post(gateway, "/tokenize", messages=HI).json["count"] == sent.usage.prompt_tokens == NOT_THINKING
    thinking = {"enable_thinking": True}
    assert post(gateway, "/tokenize", messages=HI, chat_template_kwargs=thinking).json["count"] == THINKING


@pytest.mark.parametrize(
    "target, fields, param",
    [
        ("/tokenize", {"messages": HI, "chat_template": "{{ x }}"}, "chat_template"),
        ("/tokenize", {"messages": HI, "mm_processor_kwargs": {}}, "mm_processor_kwargs"),
        ("/detokenize", {"tokens": ["1"]}, "tokens[0]"),
    ],
)
def test_a_refused_field_never_reaches_the_tokenizer(
    gateway: Serving, engine: RealEngine, target: str, fields: dict[str, object], param: str
) -> None:
    mark = engine.mark()
    answer = post(gateway, target, **fields)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)
    assert target not in {seen[1] for seen in engine.served_since(mark)}
    assert post(gateway, "/tokenize", prompt="hi").status == 200
    assert ("POST", "/tokenize", 200) in engine.served_since(mark)
