from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.dialects.call import Usage
from gateway.dialects.openai_chat import OpenAIChat
from gateway.dialects.openai_embeddings import OpenAIEmbeddings
from gateway.reasons import Malformed, Reason


@dataclass(frozen=True)
class Change:
    action: str
    field: str
    value: Any = None


DIALECT = OpenAIChat()


@pytest.mark.parametrize(
    "body", [b"", b"  ", b"[]", b"null", b'{"a":1,"a":2}', b'{"a":NaN}', b"{", b'\xef\xbb\xbf{"a":1}']
)
def test_only_one_strict_object_is_read(body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        DIALECT.read(body)
    assert caught.value.reason is Reason.BODY_MALFORMED


def test_a_body_is_written_anew_with_its_changes() -> None:
    call = DIALECT.read(b' {"model": "a", "seed": 18446744073709551615, "temperature": 0.1} ')
    written = DIALECT.write(call, [Change("replace", "model", "b"), Change("set", "k.e", value=False)])
    assert written == b'{"model":"b","seed":18446744073709551615,"temperature":0.1,"k":{"e":false}}'


def test_answers_are_those_of_openai() -> None:
    assert DIALECT.usage(b'{"usage":{"prompt_tokens":1}}') == Usage(1)
    assert json.loads(DIALECT.error(Reason.OVER_RATE, "m", None, "id", 429))["error"]["type"] == "rate_limit_error"
    assert DIALECT.error_event(Reason.ENGINE_ERROR, "m", "id").startswith(b"data: ")
    assert DIALECT.engine_message(b'{"error":{"message":"m"}}') == "m"


@pytest.mark.parametrize(
    "events, ended",
    [
        (b"data: {}\n\ndata: [DONE]\n\n", True),
        (b"data: [DONE]\r\n\r\n", True),
        (b"data: [DONE]\n\ndata: {}\n\n", False),
        (b'data: {"error": {"code": 500}}\n\ndata: [DONE]\n\n', False),
        (b'data: {"text": "data: {\\"error\\""}\n\ndata: [DONE]\n\n', True),
        (b"data: {}\n\n", False),
        (b"", False),
    ],
)
def test_a_stream_has_ended_when_its_last_event_says_so(events: bytes, ended: bool) -> None:  # noqa: FBT001  (a row of the table)
    assert DIALECT.ends(events) is ended


def test_an_api_that_says_no_more_has_a_token_in_each_event_and_nothing_to_leave_out() -> None:
    dialect = OpenAIEmbeddings()
    assert b"data: 1\n\ndata: 2\n\n".count(dialect.delta) - dialect.lead == 2
    assert dialect.take_usage(b"data: 1\n\n") == (None, b"data: 1\n\n")
    assert dialect.tells_usage is None
