from __future__ import annotations

import json

import pytest

from gateway.dialects import anthropic_answers
from gateway.dialects.call import Usage
from gateway.reasons import ANSWERS, Reason

ID = "0123456789abcdef" * 2
START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[],'
    b'"usage":{"input_tokens":14,"output_tokens":0}}}\n\n'
)
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (415, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_an_error_has_the_shape_and_type_that_anthropics_sdks_read(status: int, kind: str) -> None:
    body = json.loads(anthropic_answers.error(Reason.PARAMETER_INVALID, "n must be an integer", ID, status))
    error = {"type": kind, "message": "n must be an integer", "code": "parameter-invalid"}
    assert body == {"type": "error", "error": error, "request_id": ID}


def test_the_public_code_does_not_tell_the_two_404s_apart() -> None:
    body = json.loads(anthropic_answers.error(Reason.TARGET_NOT_CANONICAL, "m", ID, 404))
    assert body["error"]["code"] == "no-such-endpoint"


@pytest.mark.parametrize("reason", ANSWERS, ids=str)
def test_an_error_event_is_one_whole_named_event(reason: Reason) -> None:
    name, data, *rest = anthropic_answers.error_event(reason, "The engine\nfailed.", ID).split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    body = json.loads(data.removeprefix(b"data: "))
    assert body == json.loads(anthropic_answers.error(reason, "The engine\nfailed.", ID, ANSWERS[reason].status))


@pytest.mark.parametrize(
    "data, expected",
    [
        (START, Usage(14, 0)),
        (b'data: {"type":"message_delta","usage":{"input_tokens":14,"output_tokens":6}}\n\n', Usage(14, 6)),
        (b'data: {"type":"message_delta","usage":{"output_tokens":6}}\n\n', Usage(None, 6)),
        (START + b'data: {"type":"message_delta","usage":{"output_tokens":6}}\n\n' + STOP, Usage(14, 6)),
        (
            b'{"usage":{"cache_read_input_tokens":16,"cache_creation_input_tokens":null,"input_tokens":4}}',
            Usage(20),
        ),
        (b'{"usage":{"input_tokens":4,"output_tokens":1,"cache_creation_input_tokens":3}}', Usage(7, 1)),
        (
            b'{"content":[{"input":{"usage":{"input_tokens":9}}}],"usage":{"input_tokens":1,"output_tokens":2}}',
            Usage(1, 2),
        ),
        (b'{"usage":{"input_tokens":true,"output_tokens":-1}}', Usage()),
        (b'{"usage":null}', None),
        (b'{"input_tokens":14}', None),
        (b"", None),
    ],
)
def test_a_count_is_put_together_from_its_parts(data: bytes, expected: Usage | None) -> None:
    assert anthropic_answers.usage(data) == expected


@pytest.mark.parametrize(
    "events, ended",
    [
        (STOP, True),
        (START + STOP, True),
        (STOP.replace(b"\n", b"\r\n"), True),
        (b'event: message_stop\ndata: {"type": "message_stop"}\n\n\n', True),
        (STOP + START, False),
        (b'event: content_block_delta\ndata: {"text":"event: message_stop"}\n\n', False),
        (b'event: error\ndata: {"type":"error"}\n\n', False),
        (b"event: message_stopped\ndata: {}\n\n", False),
        (b"data: [DONE]\n\n", False),
        (b"", False),
    ],
)
def test_a_stream_has_ended_when_its_last_event_says_so(events: bytes, ended: bool) -> None:  # noqa: FBT001  (a row of the table)
    assert anthropic_answers.ends(events) is ended
