"""LiteLLM as a client, by OpenAI's API and by Anthropic's, with nothing but another URL and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import litellm
import pytest

from tests.e2e.partners import KEY

if TYPE_CHECKING:
    from tests.e2e.partners import Partners

pytestmark = pytest.mark.filterwarnings("ignore")  # what LiteLLM does with other packages is its own affair

HI = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def complete(partners: Partners, api: str = "openai", **changes: Any) -> Any:  # noqa: ANN401  (as LiteLLM has it)
    base = f"{partners.url}/v1" if api == "openai" else partners.url
    asked = {"messages": HI, "max_tokens": 8, "num_retries": 0, **changes}
    return litellm.completion(model=f"{api}/{asked.pop('model', 'local')}", api_base=base, api_key=KEY, **asked)


@pytest.mark.parametrize("api, target", [("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")])
def test_a_chat_is_answered(partners: Partners, api: str, target: str) -> None:
    answer = complete(partners, api)
    assert len(answer.choices[0].message.content.split()) == 8
    assert answer.usage.completion_tokens == 8
    seen = partners.reached()[-1]
    assert seen.target == target
    assert seen.json["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_stream_comes_in_pieces(partners: Partners, api: str) -> None:
    pieces = list(complete(partners, api, stream=True))
    assert len("".join(piece.choices[0].delta.content or "" for piece in pieces).split()) == 8
    assert pieces[-1].choices[0].finish_reason == "length"
    assert partners.last()["stream"] is True


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_tools_reach_the_engine(partners: Partners, api: str) -> None:
    complete(partners, api, tools=[WEATHER], tool_choice="auto")
    (tool,) = partners.last()["tools"]
    assert tool.get("function", tool)["name"] == "weather"


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_refusal_is_the_error_that_it_is(partners: Partners, api: str) -> None:
    before = len(partners.reached())
    with pytest.raises(litellm.NotFoundError):
        complete(partners, api, model="gpt-4o")
    with pytest.raises(litellm.BadRequestError) as caught:
        complete(partners, api, min_p=0.1)
    assert "min_p is not accepted here" in str(caught.value)
    assert len(partners.reached()) == before
