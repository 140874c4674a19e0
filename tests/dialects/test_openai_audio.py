from __future__ import annotations

import pytest

from gateway.dialects.call import Usage
from gateway.dialects.openai_audio import (
    TRANSCRIPTIONS,
    TRANSLATIONS,
    OpenAITranscriptions,
    OpenAITranslations,
    unmet,
)


def test_recordings_go_to_the_engines_audio_endpoints() -> None:
    assert OpenAITranscriptions().upstream == ("POST", "/v1/audio/transcriptions")
    assert OpenAITranslations().upstream == ("POST", "/v1/audio/translations")
    assert (OpenAITranscriptions().table, OpenAITranslations().table) == (TRANSCRIPTIONS, TRANSLATIONS)


def test_a_file_is_needed_and_of_a_listed_media_type() -> None:
    assert TRANSCRIPTIONS.required == TRANSLATIONS.required == ("file",)
    assert {"audio/wav", "audio/mpeg", "application/octet-stream"} < TRANSCRIPTIONS.fields["file"].words
    assert not {"text/plain", "text/html", "multipart/mixed"} & TRANSCRIPTIONS.fields["file"].words


@pytest.mark.parametrize(
    "body, expected",
    [
        ({}, []),
        ({"stream": True, "stream_include_usage": True}, []),
        ({"stream_include_usage": True}, [("stream_include_usage", "needs stream: true")]),
        (
            {"stream": False, "stream_continuous_usage_stats": True},
            [("stream_continuous_usage_stats", "needs stream: true")],
        ),
        ({"stream_include_usage": False}, [("stream_include_usage", "")]),
    ],
)
def test_options_of_a_stream_need_one(body: dict[str, object], expected: list[tuple[str, str]]) -> None:
    assert unmet(body) == expected


def test_seconds_are_no_tokens() -> None:
    dialect = OpenAITranscriptions()
    assert dialect.usage(b'{"text":"a","usage":{"type":"duration","seconds":3}}') is None
    assert dialect.usage(b'data: {"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n') == Usage(3, 4)
    assert dialect.usage(b"data: {}\n\n") is None
    assert dialect.ends(b"data: [DONE]\n\n")
