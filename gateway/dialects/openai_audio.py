"""The audio APIs of OpenAI as vLLM serves them: ``POST /v1/audio/transcriptions`` and ``/v1/audio/translations``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.fields import load
from gateway.dialects.form_body import FormBody

if TYPE_CHECKING:
    from collections.abc import Mapping

TRANSCRIPTIONS = load("openai_transcriptions")
TRANSLATIONS = load("openai_translations")

_OF_STREAMS = ("stream_include_usage", "stream_continuous_usage_stats")


class OpenAITranscriptions(FormBody):
    """A recording as text, streamed or not."""

    name: str = "openai-transcriptions"
    upstream: tuple[str, str] | None = ("POST", "/v1/audio/transcriptions")
    table = TRANSCRIPTIONS


class OpenAITranslations(FormBody):
    """A recording as text of another language, streamed or not."""

    name: str = "openai-translations"
    upstream: tuple[str, str] | None = ("POST", "/v1/audio/translations")
    table = TRANSLATIONS


def unmet(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the options of a stream that is none; vLLM answers 400 to one that is set."""
    if body.get("stream") is True:
        return []
    return [(name, "needs stream: true" if body[name] else "") for name in _OF_STREAMS if body.get(name) is not None]
