"""Each client finds its own prompts in the engine's prefix cache again, and nobody else's: timing-007 of the corpus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import openai

from tests.vllm import real_engine
from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

# More than two blocks of the cache (128 tokens each on the CPU), in a tokenizer that has no long words.
PROMPT = "What did the other client ask, and when? " * 12


def through(gateway: Serving, credential: str, prompt: str) -> Callable[[], object]:
    """Ask by way of the gateway, as the client that a credential belongs to."""

    def ask() -> object:
        with openai.OpenAI(base_url=gateway.url, api_key=credential, max_retries=0) as client:
            return client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": prompt}], max_tokens=1
            )

    return ask


def directly(engine: RealEngine, prompt: str, **fields: str) -> Callable[[], object]:
    """Ask the engine itself."""

    def ask() -> object:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": "local", "messages": messages, "max_tokens": 1, **fields}
        status, answer = engine.ask("POST", "/v1/chat/completions", json.dumps(body).encode(), real_engine.KEY)
        assert status == 200, answer
        return answer

    return ask


def test_without_a_salt_the_engine_would_tell_who_asked_before(
    engine: RealEngine,
) -> None:
    """The cache is on, and this is what it would give away: otherwise the next test could not fail."""
    prompt = f"unsalted {PROMPT}"
    assert engine.found_while(directly(engine, prompt)) == 0
    assert engine.found_while(directly(engine, prompt)) > 0


def test_a_client_finds_its_own_prompt_again_and_no_other_client_does(
    over_socket: Serving, access_token: str, engine: RealEngine
) -> None:
    prompt = f"salted {PROMPT}"
    batch, app = through(over_socket, KEY, prompt), through(over_socket, access_token, prompt)
    assert engine.found_while(batch) == 0
    assert engine.found_while(batch) > 0
    assert engine.found_while(app) == 0, "a client was answered from what another one asked"
    assert engine.found_while(app) > 0
    assert engine.found_while(batch) > 0
    assert engine.found_while(directly(engine, prompt)) == 0
    assert engine.found_while(directly(engine, prompt, cache_salt="(the salt of batch)")) == 0
