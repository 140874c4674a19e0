"""The routes of speech models: a form with a recording in, text out.

Enters: the engine's state and a request. Leaves: vLLM's answer, plain, verbose or as events. The form is read as
leniently as FastAPI reads it: any order, any name, text for numbers and truth. Nobody listens to the recording; a
second of it is what 16 kHz in 16 bits would be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header
from starlette.responses import JSONResponse, Response, StreamingResponse

from gateway.simulator import prompt
from gateway.simulator.errors import Refused
from gateway.simulator.text import DONE, EVENT_STREAM, event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from gateway.simulator.state import EngineState

_BYTES_IN_A_SECOND = 32_000
_TRUE = frozenset({"true", "1", "on", "yes"})


@dataclass(slots=True)
class _Form:
    """The last text of each field, and the size of the file; no file is ``None``."""

    fields: dict[str, str] = field(default_factory=dict)
    size: int | None = None

    def true(self, name: str) -> bool:
        return self.fields.get(name, "").lower() in _TRUE


async def transcriptions(engine: EngineState, request: Request) -> Response:
    """``POST /v1/audio/transcriptions``."""
    return await _answer(engine, request, "transcribe")


async def translations(engine: EngineState, request: Request) -> Response:
    """``POST /v1/audio/translations``."""
    return await _answer(engine, request, "translate")


async def _answer(engine: EngineState, request: Request, task: str) -> Response:
    form = await _read(request)
    if form.size is None:
        raise Refused("1 validation error:\n  missing: Field required", kind="Bad Request", param="body.file")
    if form.true("stream_include_usage") and not form.true("stream"):
        raise Refused("Stream options can only be defined when `stream=True`.", param="stream_include_usage")
    model = prompt.served(engine, form.fields.get("model"))
    most = int(form.fields.get("max_completion_tokens") or engine.tokens)
    words = [f" word{number}" for number in range(min(most, 4))]
    if form.true("stream"):
        usage = {"prompt_tokens": 4, "total_tokens": 4 + len(words), "completion_tokens": len(words)}
        counted = usage if form.true("stream_include_usage") else None
        return StreamingResponse(_events(model, words, counted), media_type=EVENT_STREAM)
    said = "".join(words).strip()
    seconds = -(-form.size // _BYTES_IN_A_SECOND)
    if form.fields.get("response_format") == "verbose_json":
        language = form.fields.get("language", "en")
        segments = [{"id": 0, "start": 0.0, "end": float(seconds), "text": said}]
        body = {"duration": str(seconds), "language": language, "text": said, "segments": segments, "words": None}
        return JSONResponse(body)
    if task == "translate":
        return JSONResponse({"text": said})
    return JSONResponse({"text": said, "usage": {"type": "duration", "seconds": seconds}})


async def _events(model: str, words: list[str], usage: dict[str, int] | None) -> AsyncIterator[bytes]:
    head: dict[str, Any] = {"id": f"trsc-{uuid4().hex}", "object": "transcription.chunk", "created": 0, "model": model}
    for number, word in enumerate(words, 1):
        reason = "stop" if number == len(words) else None
        choice = {"delta": {"content": word}, "finish_reason": reason, "stop_reason": None}
        yield event({**head, "choices": [choice]})
    if usage is not None:
        yield event({**head, "choices": [], "usage": usage})
    yield DONE


async def _read(request: Request) -> _Form:
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type != "multipart/form-data" or not options.get("boundary"):
        raise Refused("1 validation error:\n  missing: Field required", kind="Bad Request", param="body.file")
    form, text = _Form(), b""
    segment: MultipartSegment | None = None
    try:
        with PushMultipartParser(options["boundary"]) as parser:
            async for piece in request.stream():
                for found in parser.parse(piece) if piece else ():
                    if isinstance(found, MultipartSegment):
                        segment, text = found, b""
                    elif segment is None:
                        continue
                    elif segment.filename is not None:
                        form.size = (form.size or 0) + len(found or b"")
                    elif found is None:
                        form.fields[segment.name or ""] = text.decode("utf-8", "replace")
                    else:
                        text += found
    except MultipartError:
        raise Refused("There was an error parsing the body", kind="Bad Request", param="body") from None
    return form
