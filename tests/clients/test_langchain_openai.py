"""LangChain's client for OpenAI's API, with nothing but another URL, key and model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from tests.e2e.partners import KEY

if TYPE_CHECKING:
    from tests.e2e.partners import Partners

TURNS = [SystemMessage("be brief"), HumanMessage("hi")]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.fixture
def chat(partners: Partners) -> ChatOpenAI:
    """Give a model of the key's client."""
    return ChatOpenAI(model="local", base_url=f"{partners.url}/v1", api_key=KEY, max_retries=0, max_tokens=8)


def test_a_chat_is_answered(partners: Partners, chat: ChatOpenAI) -> None:
    answer = chat.invoke(TURNS)
    assert len(str(answer.content).split()) == 8
    assert answer.usage_metadata["output_tokens"] == 8
    sent = partners.last()
    assert sent["max_completion_tokens"] == 8
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]


async def test_a_stream_comes_in_pieces_with_its_count(chat: ChatOpenAI) -> None:
    pieces = [piece async for piece in chat.astream(TURNS, stream_usage=True)]
    assert len("".join(str(piece.content) for piece in pieces).split()) == 8
    assert [piece.usage_metadata["output_tokens"] for piece in pieces if piece.usage_metadata] == [8]


def test_tools_reach_the_engine(partners: Partners, chat: ChatOpenAI) -> None:
    chat.bind_tools([WEATHER], tool_choice="auto").invoke(TURNS)
    sent = partners.last()
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["weather"]
    assert sent["tool_choice"] == "auto"


def test_a_schema_for_the_answer_reaches_the_engine(partners: Partners, chat: ChatOpenAI) -> None:
    schema = {"title": "Answer", "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    unbounded = chat.model_copy(update={"max_tokens": None})
    unbounded.with_structured_output(schema, method="json_schema", include_raw=True).invoke(TURNS)
    assert partners.last()["response_format"]["type"] == "json_schema"


def test_an_effort_that_is_permitted_is_sent(partners: Partners) -> None:
    chat = ChatOpenAI(model="local", base_url=f"{partners.url}/v1", api_key=KEY, max_retries=0, reasoning_effort="high")
    chat.invoke(TURNS)
    sent = partners.last()
    assert sent["reasoning_effort"] == "high"
    assert "chat_template_kwargs" not in sent


def test_texts_are_embedded(partners: Partners) -> None:
    embeddings = OpenAIEmbeddings(
        model="embed", base_url=f"{partners.url}/v1", api_key=partners.token(), check_embedding_ctx_length=False
    )
    assert [len(vector) for vector in embeddings.embed_documents(["a", "b"])] == [8, 8]
    assert partners.last()["input"] == ["a", "b"]


def test_a_refusal_names_the_field(partners: Partners, chat: ChatOpenAI) -> None:
    before = len(partners.reached())
    with pytest.raises(openai.BadRequestError) as caught:
        chat.invoke(TURNS, n=2)
    assert (caught.value.code, caught.value.param) == ("parameter-over-cap", "n")
    assert len(partners.reached()) == before
