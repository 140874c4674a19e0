from __future__ import annotations

import json

import pytest

from gateway.dialects.call import Usage
from gateway.dialects.meter import Meter
from gateway.dialects.openai_chat import OpenAIChat
from gateway.dialects.openai_embeddings import OpenAIEmbeddings


def _event(**value: object) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _token(text: str, **more: object) -> bytes:
    return _event(choices=[{"index": 0, "delta": {"content": text}}], **more)


ROLE = _event(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}])
COUNT = _event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 3})
DONE = b"data: [DONE]\n\n"


def test_a_stream_that_breaks_off_has_as_many_tokens_as_were_seen() -> None:
    meter = Meter(OpenAIChat())
    assert meter.produced == 0
    for piece in (ROLE, _token("a") + _token("b"), _token('"delta":{"'), b": keep-alive\n\n"):
        assert meter.events(piece) == piece
    assert (meter.produced, meter.usage) == (3, None)


@pytest.mark.parametrize("hides,seen", [(True, _token("c") + DONE), (False, _token("c") + COUNT + DONE)])
def test_the_event_of_the_count_is_for_the_caller_who_asked_for_it(*, hides: bool, seen: bytes) -> None:
    meter = Meter(OpenAIChat(), hides=hides)
    assert meter.events(_token("c") + COUNT + DONE) == seen
    assert meter.usage == Usage(5, 3)


@pytest.mark.parametrize("hides", [True, False])
def test_what_is_no_count_is_for_every_caller(*, hides: bool) -> None:
    meter = Meter(OpenAIChat(), hides=hides)
    event = _event(choices=[], usage=7)
    assert meter.events(event) == event
    assert meter.usage is None


def test_a_place_for_a_count_without_one_is_for_every_caller() -> None:
    meter = Meter(OpenAIChat(), hides=True)
    event = _token("x", usage=None)
    assert meter.events(event) == event
    assert meter.usage is None


def test_counts_that_repeat_themselves_are_not_added_up() -> None:
    meter = Meter(OpenAIChat(), hides=True)
    for number in range(1, 11):
        event = _token("x", usage={"prompt_tokens": 7, "completion_tokens": number})
        assert meter.events(event) == event, "it holds more than the count"
    assert meter.events(_event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 10})) == b""
    assert meter.usage == Usage(7, 10)


def test_a_count_in_two_parts_is_put_together() -> None:
    meter = Meter(OpenAIChat())
    meter.events(_token("x", usage={"prompt_tokens": 7}))
    meter.events(_token("x", usage={"completion_tokens": 2}))
    assert meter.usage == Usage(7, 2)


def test_a_plain_answer_is_read_at_its_end() -> None:
    meter = Meter(OpenAIEmbeddings())
    meter.body(b'{"data":[]}')
    assert not meter.usage
    meter.body(b'{"data":[],"usage":{"prompt_tokens":4}}')
    assert (meter.usage, meter.produced) == (Usage(4), 0)
