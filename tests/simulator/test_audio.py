from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.simulator.conftest import KEY, Asking

if TYPE_CHECKING:
    from httpx2 import Response

SECOND = b"\0" * 32_000


async def post(asking: Asking, task: str = "transcriptions", file: bytes = SECOND, **fields: str) -> Response:
    headers = {"authorization": f"Bearer {KEY}"}
    return await asking.client.post(f"/v1/audio/{task}", data=fields, files={"file": ("a.wav", file)}, headers=headers)


async def test_a_transcription_counts_seconds_and_a_translation_nothing(asking: Asking) -> None:
    answer = await post(asking, model="local", file=SECOND + b"x", max_completion_tokens="2")
    assert answer.json() == {"text": "word0 word1", "usage": {"type": "duration", "seconds": 2}}
    assert (await post(asking, "translations", model="local", max_completion_tokens="1")).json() == {"text": "word0"}


async def test_a_verbose_answer_has_segments(asking: Asking) -> None:
    answer: Any = (await post(asking, response_format="verbose_json", language="de")).json()
    assert (answer["duration"], answer["language"], answer["segments"][0]["end"]) == ("1", "de", 1.0)


async def test_a_stream_ends_with_its_count_and_done(asking: Asking) -> None:
    answer = await post(asking, stream="true", stream_include_usage="1")
    events = answer.text.split("\n\n")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert '"object":"transcription.chunk"' in events[0]
    assert '"completion_tokens":4' in events[-3]
    assert events[-2] == "data: [DONE]"
    assert "usage" not in (await post(asking, stream="true")).text


@pytest.mark.parametrize(
    "content_type, body",
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--b--"),
        ("multipart/form-data; boundary=b", b"--b"),
        ("multipart/form-data; boundary=b", b"--b--"),
    ],
)
async def test_a_form_without_a_file_is_refused(asking: Asking, content_type: str, body: bytes) -> None:
    headers = {"authorization": f"Bearer {KEY}", "content-type": content_type}
    assert (await asking.client.post("/v1/audio/transcriptions", content=body, headers=headers)).status_code == 400


async def test_options_of_a_stream_and_models_are_checked(asking: Asking) -> None:
    assert (await post(asking, stream_include_usage="true")).status_code == 400
    assert (await post(asking, model="none")).status_code == 404
