from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import openai_answers
from gateway.dialects.call import Usage
from gateway.reasons import Reason

COUNT = {"prompt_tokens": 14, "total_tokens": 20, "completion_tokens": 6}


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_an_error_has_the_shape_and_type_that_openai_sdks_read(status: int, kind: str) -> None:
    body = json.loads(openai_answers.error(Reason.PARAMETER_INVALID, "n must be an integer", "n", status))
    expected = {"message": "n must be an integer", "type": kind, "param": "n", "code": "parameter-invalid"}
    assert body == {"error": expected}


def test_the_public_code_does_not_tell_the_two_404s_apart() -> None:
    body = json.loads(openai_answers.error(Reason.TARGET_NOT_CANONICAL, "m", None, 404))
    assert body["error"]["code"] == "no-such-endpoint"


def test_an_error_event_is_one_whole_event() -> None:
    event = openai_answers.error_event(Reason.ENGINE_TIMEOUT, "The engine\nfailed.")
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2
    assert json.loads(event[6:])["error"]["code"] == "engine-timeout"


def test_the_responses_api_has_an_event_for_errors_with_what_sdks_raise_beside_it() -> None:
    event = openai_answers.response_error_event(Reason.ENGINE_TIMEOUT, "The engine\nfailed.")
    assert event.startswith(b"event: error\ndata: {")
    assert event.endswith(b"}\n\n")
    value = json.loads(event.partition(b"data: ")[2])
    assert (value["type"], value["code"], value["param"]) == ("error", "engine-timeout", None)
    assert value["error"]["code"] == "engine-timeout"


def test_a_count_has_the_names_of_its_api() -> None:
    value = {"input_tokens": 1, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}
    names = openai_answers.RESPONSE_COUNTS
    assert openai_answers.counted(value, names) == Usage(prompt=1, completion=2, reasoning=1)
    assert openai_answers.usage(json.dumps({"usage": value}).encode(), names) == Usage(1, 2, 1)


@pytest.mark.parametrize(
    "body, message",
    [
        (b'{"error": {"message": "too long", "type": "BadRequestError", "code": 400}}', "too long"),
        (b'{"object": "error", "message": "older"}', "older"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"error": "plain"}', "plain"),
        (b'{"detail": [{"msg": "x"}]}', None),
        (b'{"error": {"message": 1}}', None),
        (b'{"error": {}}', None),
        (b"[]", None),
        (b"<html>", None),
        (b"", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b'{"error": {"message": "cut of', "cut of"),  # only so much of a body is read
        (b'{"error": {"message": "cut of\\u20', "cut of"),
        (b'{"error": {"message": "cut of\xe2\x82', "cut of"),
        (b'{"error": {"mess', None),
        (b'{"error": {"message": "half a \\ud800 pair"}}', "half a ? pair"),
    ],
)
def test_the_message_of_an_engine_is_taken_out_of_any_of_its_error_bodies(body: bytes, message: str | None) -> None:
    assert openai_answers.engine_message(body) == message


def test_a_long_message_is_cut_at_a_character() -> None:
    body = json.dumps({"error": {"message": "\N{EURO SIGN}" * 1000}}).encode()
    message = openai_answers.engine_message(body)
    assert message == "\N{EURO SIGN}" * 682


@pytest.mark.parametrize(
    "data, expected",
    [
        (b'data: {"choices":[],"usage":' + json.dumps(COUNT).encode() + b"}\n\ndata: [DONE]\n\n", Usage(14, 6)),
        (b'{"id":"x",\n "usage": {"prompt_tokens": 3}}', Usage(3)),
        (
            b'{"usage":{"prompt_tokens":1,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":7}}}',
            Usage(1, 9, 7),
        ),
        (b'{"usage":{"completion_tokens_details":null}}', Usage()),
        (b'{"usage":{"prompt_tokens":true,"completion_tokens":-1}}', Usage()),
        (b'data: {"usage":null}\n\n', None),
        (b'"usage":{"prompt_tokens":5}', Usage(5)),
        (b'data: {"usage":{"prompt_tokens":1}}\n\ndata: {"usage":{"prompt_tokens":2}}\n\n', Usage(2)),
        (b'data: {"usage":{"prompt_tokens":1}}\n\ndata: {"usage":null}\n\n', Usage(1)),
        (b'{"usage":{"prompt_tokens":1', None),
        (b'{"usage":[' + b"[" * 5000, None),
        (b'{"usage":7}', None),
        (b'{"a":"\\"usage":{"prompt_tokens":1}"}', None),
        (b"", None),
        (b"data: {}\n\n", None),
    ],
)
def test_the_last_count_in_a_piece_of_an_answer_is_found(data: bytes, expected: Usage | None) -> None:
    assert openai_answers.usage(data) == expected


@given(st.text())
def test_text_of_an_answer_is_never_taken_for_a_count(text: str) -> None:
    look_alike = f'{text}"usage":{{"prompt_tokens":999}}{text}'
    for value in (look_alike, json.dumps({"usage": {"prompt_tokens": 999}}), json.dumps(look_alike)):
        for compact in (None, (",", ":")):
            answer = {"choices": [{"delta": {"content": value}}], value: 1}
            assert openai_answers.usage(json.dumps(answer, separators=compact).encode()) is None
            answer["usage"] = COUNT
            assert openai_answers.usage(json.dumps(answer, separators=compact).encode()) == Usage(14, 6)
