"""OpenAI's SDK has recordings transcribed and translated by a real vLLM with a tiny Whisper."""

from __future__ import annotations

import io
import math
import struct
import wave
from typing import TYPE_CHECKING, TypeAlias

import openai
import pytest

from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

Recording: TypeAlias = tuple[str, bytes, str]

RATE = 16000
TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"


@pytest.fixture(scope="module")
def recording() -> Recording:
    """Record a second of one tone, under a name that is nobody's business."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, RATE, 0, "NONE", ""))
        sound.writeframes(b"".join(struct.pack("<h", int(8000 * math.sin(n / 10))) for n in range(RATE)))
    return ("secret-meeting.wav", file.getvalue(), "audio/wav")


@pytest.fixture
def sdk(hearing: Serving) -> Iterator[openai.OpenAI]:
    """Give OpenAI's own client, with a key."""
    with openai.OpenAI(base_url=hearing.url, api_key=KEY, max_retries=0, timeout=60) as client:
        yield client


def test_a_recording_is_transcribed(sdk: openai.OpenAI, hearing_engine: RealEngine, recording: Recording) -> None:
    mark = hearing_engine.mark()
    answer = sdk.audio.transcriptions.create(model="whisper", file=recording, language="en")
    assert answer.text
    assert answer.usage
    assert answer.usage.type == "duration"
    assert answer.usage.seconds == 1
    assert ("POST", TRANSCRIPTIONS, 200) in hearing_engine.served_since(mark)
    assert b"secret-meeting" not in hearing_engine.log.read_bytes()


def test_a_recording_is_transcribed_piece_by_piece_and_counted(
    hearing: Serving,
    sdk: openai.OpenAI,
    recording: Recording,
) -> None:
    with sdk.audio.transcriptions.with_streaming_response.create(
        model="whisper", file=recording, language="en", stream=True, extra_body={"stream_include_usage": True}
    ) as raw:
        data = raw.read()
        request_id = raw.headers["x-request-id"]
    assert data.endswith(b"data: [DONE]\n\n")
    record = hearing.record(request_id)
    assert record["outcome"] == "ok"
    assert record["usage"]["completion"] == 8


def test_a_recording_is_translated(sdk: openai.OpenAI, hearing_engine: RealEngine, recording: Recording) -> None:
    mark = hearing_engine.mark()
    with pytest.deprecated_call():  # by OpenAI, not by vLLM
        assert sdk.audio.translations.create(model="whisper", file=recording).text
    assert ("POST", TRANSLATIONS, 200) in hearing_engine.served_since(mark)


@pytest.mark.parametrize("name", ["vllm_xargs", "use_beam_search", "n", "hotwords"])
def test_a_refused_part_never_reaches_the_engine(
    sdk: openai.OpenAI,
    hearing_engine: RealEngine,
    recording: Recording,
    name: str,
) -> None:
    mark = hearing_engine.mark()
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.audio.transcriptions.create(model="whisper", file=recording, extra_body={name: "1"})
    assert caught.value.param == name
    assert TRANSCRIPTIONS not in {seen[1] for seen in hearing_engine.served_since(mark)}
    sdk.audio.transcriptions.create(model="whisper", file=recording, language="en")
    assert ("POST", TRANSCRIPTIONS, 200) in hearing_engine.served_since(mark)


def test_what_is_no_recording_is_refused_by_the_engine_as_it_says_it(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="Invalid or unsupported audio file") as caught:
        sdk.audio.transcriptions.create(model="whisper", file=("a.wav", b"RIFF", "audio/wav"), language="en")
    assert caught.value.code == "engine-error"
