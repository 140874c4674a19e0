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
        (b'{"error": {"message": "cut of', None),
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


LAST_COUNT = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}'
ONE_TOKEN = (
    b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"\\"choices\\":[] \xf0\x9f\x8c\x8d"}}],"usage":null}'
)


NESTED = b'data: {"x":{"choices":[]},"choices":[1],"usage":{}}'


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize(
    "events,left",
    [
        ([LAST_COUNT], []),
        ([ONE_TOKEN, LAST_COUNT, b"data: [DONE]"], [ONE_TOKEN, b"data: [DONE]"]),
        ([b": keep-alive", LAST_COUNT, ONE_TOKEN], [b": keep-alive", ONE_TOKEN]),
        ([ONE_TOKEN, ONE_TOKEN], [ONE_TOKEN, ONE_TOKEN]),
        ([b'data: {"choices": [ ]}'], [b'data: {"choices": [ ]}']),
        ([b'data: {"choices":[],"usage":null}'], [b'data: {"choices":[],"usage":null}']),
        ([b'data: {"choices":[],"prompt_filter":1'], [b'data: {"choices":[],"prompt_filter":1']),
        ([b'data: [{"choices":[]}]'], [b'data: [{"choices":[]}]']),
        ([NESTED], [NESTED]),
    ],
)  # fmt: skip
def test_only_an_event_that_is_nothing_but_a_count_is_left_out(
    events: list[bytes], left: list[bytes], end: bytes
) -> None:
    def joined(parts: list[bytes]) -> bytes:
        return b"".join(part + end for part in parts)

    assert openai_answers.without_usage(joined(events)) == joined(left)


def test_an_event_that_its_blank_line_does_not_end_yet_is_left_as_it_is_unless_it_is_a_count() -> None:
    assert openai_answers.without_usage(LAST_COUNT + b"\n\n" + ONE_TOKEN) == ONE_TOKEN
    assert openai_answers.without_usage(ONE_TOKEN + b"\n\n" + LAST_COUNT) == ONE_TOKEN + b"\n\n"
