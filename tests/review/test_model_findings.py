from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.inquiry import Failure, Reply
from gateway.policy.thinking_trial import ThinkingTrial
from gateway.review.diagnosis import Verdict
from gateway.review.model_findings import answered, asleep, thinking, thought_in
from tests.review.patients import REFUSED, SILENT, chat, reply

CHAT = ThinkingTrial(
    "fast", "main", "org/real", "openai-chat", "enable_thinking", "POST", "/v1/chat/completions", b"{}", b"{}"
)
MESSAGES = replace(CHAT, dialect="anthropic-messages", path="/v1/messages")
RESPONSES = replace(CHAT, dialect="openai-responses", path="/v1/responses")


def problem(status: int, message: object = "") -> Reply:
    return reply({"error": {"message": message}}, status)


@pytest.mark.parametrize(
    "answer, verdict, saw, do",
    [
        (Reply(200, {}, b"{}", seconds=0.0154), Verdict.OK, "answered in 15 ms", ""),
        (SILENT, Verdict.BROKEN, "no answer in 30 s", "Xid"),
        (REFUSED, Verdict.BROKEN, "connection refused", "the engine's log"),
        (Reply(failure=Failure.BROKE_OFF), Verdict.BROKEN, "the connection broke off", "it ended under the request"),
        (problem(401), Verdict.BROKEN, "401 to the warm-up", "refuses the gateway's key"),
        (problem(404, "no such model"), Verdict.BROKEN, "404 to the warm-up: no such model", "--served-model-name"),
        (problem(429, "later"), Verdict.WARNING, "429 to the warm-up (its queue is full)", "IN_FLIGHT"),
        (problem(503, "CUDA out of memory"), Verdict.BROKEN, "503 to the warm-up (out of memory)", "--max-model-len"),
        (problem(500, "EngineCore encountered an issue"), Verdict.BROKEN, "(the engine core died)", "restarted"),
        (problem(500), Verdict.BROKEN, "500 to the warm-up", "the engine's log above the error"),
        (problem(400, "bad\nfield"), Verdict.WARNING, "400 to the warm-up: bad field", "'defaults' or 'force'"),
        (Reply(400, {}, b'{"error":"Unauthorized"}'), Verdict.WARNING, "400 to the warm-up: Unauthorized", "'force'"),
        (Reply(400, {}, b'{"error":[1]}'), Verdict.WARNING, "400 to the warm-up", "'force'"),
    ],
)
def test_the_smallest_question_tells_whether_a_model_works(answer: Reply, verdict: Verdict, saw: str, do: str) -> None:
    found = answered("local on main", answer)
    assert found.verdict is verdict
    assert saw in found.saw
    assert do in found.do


def test_an_engine_that_sleeps_is_not_asked() -> None:
    assert asleep("main").verdict is Verdict.BROKEN


def messages(*blocks: tuple[str, str], tokens: int = 20) -> Reply:
    content = [{"type": kind, kind: text} for kind, text in blocks]
    return reply({"content": content, "usage": {"input_tokens": tokens}})


def responses(*items: tuple[str, str], tokens: int = 20) -> Reply:
    output: list[dict[str, Any]] = []
    for kind, text in items:
        part = {"type": "output_text" if kind == "message" else "reasoning_text", "text": text}
        output.append({"type": kind, "content": [part], "summary": []})
    return reply({"output": output, "usage": {"input_tokens": tokens}})


@pytest.mark.parametrize(
    "trial, off, on",
    [
        (CHAT, chat(), chat(tokens=14)),
        (MESSAGES, messages(("text", "Hi")), messages(("text", "Hi"), tokens=14)),
        (RESPONSES, responses(("message", "Hi")), responses(("message", "Hi"), tokens=14)),
    ],
)
def test_a_switch_that_is_heeded_shows_in_the_length_of_the_prompt(trial: ThinkingTrial, off: Reply, on: Reply) -> None:
    found = thinking("main", trial, off, on)
    assert found.verdict is Verdict.OK
    assert found.saw == (f"{trial.path} does not think: enable_thinking is heeded (20 prompt tokens, 14 with it on)")


@pytest.mark.parametrize(
    "trial, off",
    [
        (CHAT, chat(reasoning="Well")),
        (CHAT, chat(None, reasoning_content="Well")),
        (CHAT, chat("\n<think>Well")),
        (CHAT, reply({"usage": {"prompt_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 3}}})),
        (MESSAGES, messages(("thinking", "Well"), ("text", "Hi"))),
        (MESSAGES, messages(("text", "<think>Well"))),
        (RESPONSES, responses(("reasoning", "Well"), ("message", "Hi"))),
        (RESPONSES, reply({"output": [], "usage": {"output_tokens_details": {"reasoning_tokens": 3}}})),
    ],
)
def test_thinking_14_thought_in_spite_of_the_switch_is_warned_of_on_each_api(trial: ThinkingTrial, off: Reply) -> None:
    found = thinking("main", trial, off, off)
    assert found.verdict is Verdict.WARNING
    assert "thinks although nobody asked it to: enable_thinking does nothing to the prompt" in found.saw
    assert "set thinking_switch of 'fast'" in found.do
    assert thought_in(orjson.loads(off.body), trial.dialect)


def test_thinking_08_an_answer_that_is_all_thought_although_the_prompt_is_off_is_the_parsers_fault() -> None:
    found = thinking("main", MESSAGES, messages(("thinking", "HELLO")), messages(("thinking", "HELLO"), tokens=14))
    assert found.verdict is Verdict.WARNING
    assert "gives the whole answer as thought although enable_thinking is off in the prompt" in found.saw
    assert "--reasoning-parser" in found.do
    assert "--default-chat-template-kwargs '{\"enable_thinking\": false}'" in found.do
    part = messages(("thinking", "He"), ("text", "llo"))
    assert "gives part of its answer" in thinking("main", MESSAGES, part, messages(tokens=14)).saw


def test_a_switch_that_changes_nothing_is_warned_of_since_the_template_may_call_it_otherwise() -> None:
    found = thinking("main", CHAT, chat(), chat())
    assert found.verdict is Verdict.WARNING
    assert found.saw == (
        "/v1/chat/completions: enable_thinking changes nothing in the prompt (20 prompt tokens, 20 with it on)"
    )
    assert found.do.endswith("of one that cannot think, none")


def test_thought_in_the_text_itself_is_not_laid_to_the_parser() -> None:
    found = thinking("main", CHAT, chat("<think>Well"), chat(tokens=14))
    assert found.verdict is Verdict.WARNING
    assert "enable_thinking is off in the prompt, in vain (20 prompt tokens, 14 with it on)" in found.saw
    assert "--reasoning-parser" not in found.do


def test_a_mark_within_a_text_is_no_thought() -> None:
    assert thinking("main", CHAT, chat("The tag <think> begins"), chat(tokens=14)).verdict is Verdict.OK


def test_a_model_without_a_switch_is_looked_at_for_thought_alone() -> None:
    without = replace(CHAT, switch="none", on=None)
    assert thinking("main", without, chat(), None).saw == "/v1/chat/completions does not think: no thought came back"
    found = thinking("main", without, chat(reasoning="Well"), None)
    assert found.verdict is Verdict.WARNING
    assert "thinking_switch says that there is no switch for it here" in found.saw


@pytest.mark.parametrize(
    "off, why", [(REFUSED, "(connection refused)"), (problem(500, "core\nis dead"), "(500: core is dead)")]
)
def test_a_trial_that_came_to_nothing_is_told(off: Reply, why: str) -> None:
    found = thinking("main", CHAT, off, None)
    assert (found.verdict, found.saw.endswith(why)) == (Verdict.WARNING, True)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"choices":[]}', b'{"content":1,"output":"x","usage":[]}'])
@pytest.mark.parametrize("trial", [CHAT, MESSAGES, RESPONSES])
def test_answers_of_any_shape_are_read_without_stumbling(trial: ThinkingTrial, body: bytes) -> None:
    assert thinking("main", trial, Reply(200, {}, body), Reply(200, {}, body)).verdict is Verdict.OK
