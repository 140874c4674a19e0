"""What becomes of an engine's faults: each script of the raw engine, with the answer that the caller gets."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.playing import answer_to, flows, played_whole
from tests.e2e.raw_http import NotHttp
from tests.e2e.scenarios import assert_error_event
from tests.e2e.site import DEADLINES, wait
from tests.simulators.raw_engine import CHAT, DONE, SCRIPTS, ZIPPED_CHAT, token

if TYPE_CHECKING:
    from tests.e2e.raw_http import Answer
    from tests.e2e.site import Site

MALFORMED = (502, "engine-malformed")
REFUSED = [
    ("length-and-chunked", *MALFORMED),
    ("two-lengths", *MALFORMED),
    ("negative-length", *MALFORMED),
    ("unknown-coding", *MALFORMED),
    ("garbage", *MALFORMED),
    ("endless-line", *MALFORMED),
    ("endless-head", *MALFORMED),
    ("folded-field", *MALFORMED),
    ("bare-line-feeds", *MALFORMED),
    ("nul-in-a-field", *MALFORMED),
    ("http-2", *MALFORMED),
    ("switching-protocols", *MALFORMED),
    ("no-content-with-body", *MALFORMED),
    ("not-modified", *MALFORMED),
    ("redirect", *MALFORMED),
    ("created", *MALFORMED),
    ("close-before-the-answer", 502, "engine-unavailable"),
    ("reset-before-the-answer", 502, "engine-unavailable"),
    ("half-a-head", 502, "engine-error"),
    ("bad-request", 400, "engine-error"),
    ("unknown-model", 404, "engine-error"),
    ("long-error", 400, "engine-error"),
    ("unauthorized", 502, "engine-refused-gateway"),
    ("forbidden", 502, "engine-refused-gateway"),
    ("too-many", 429, "engine-overloaded"),
    ("overloaded", 503, "engine-overloaded"),
    ("broken", 502, "engine-error"),
    ("html-error", 502, "engine-error"),
]
PASSED = [
    ("chat", CHAT),
    ("late-chat", CHAT),
    ("chunked-chat", CHAT),
    ("until-close", CHAT),
    ("zipped-chat", ZIPPED_CHAT),
    ("hop-by-hop", CHAT),
    ("early-hints", CHAT),
    ("http-1.0", CHAT),
    ("second-answer-at-once", CHAT),
    ("length-too-short", CHAT[:5]),
]
CUT = ["bad-chunk-size", "chunk-longer-than-its-size", "reset-mid-stream", "fin-mid-stream", "fin-mid-event"]


def text_of(answer: Answer) -> str:
    """Give everything that a caller gets to read."""
    return answer.body.decode("latin-1") + str(answer.headers)


@pytest.mark.parametrize("script, status, code", REFUSED)
@pytest.mark.parametrize("stream", [True, False])
def test_a_fault_before_the_answer_is_an_answer_in_the_dialect(
    site: Site, script: str, status: int, code: str, *, stream: bool
) -> None:
    answer = site.ask(site.script(script, stream=stream))
    assert (answer.status, answer.code) == (status, code)
    for inside in ("evil.example", "/models/secret", "10.0.0.5", "SSH", "location", "surprise", "server"):
        assert inside not in text_of(answer).replace("server_error", "")
    assert len(answer.json["error"]["message"]) <= 2048
    played_whole(site, "chat")


def test_of_a_refusal_that_is_too_long_the_beginning_is_told(site: Site) -> None:
    answer = site.ask(site.script("long-error", stream=False))
    assert answer.json["error"]["message"] == "x" * 2048


@pytest.mark.parametrize("script, body", PASSED)
def test_an_answer_that_is_only_odd_passes_as_it_is(site: Site, script: str, body: bytes) -> None:
    answer = site.ask(site.script(script, stream=False))
    assert (answer.status, answer.body, answer.interim) == (200, body, ())
    assert answer.value("content-encoding") == ("gzip" if script == "zipped-chat" else None)
    for name in ("x-foo", "set-cookie", "keep-alive", "link", "server"):
        assert answer.values(name) == []
    assert played_whole(site, "chat").body


@pytest.mark.parametrize("script", CUT)
def test_a_stream_that_breaks_ends_with_an_error_event_and_no_end_of_the_body(site: Site, script: str) -> None:
    data, played = flows(site, script)
    assert data.startswith(b"data: {")
    last = data.removesuffix(b"\n\n").rpartition(b"\n\n")[2]
    assert_error_event(data, "engine-malformed" if b"engine-malformed" in last else "engine-error")
    assert played_whole(site, "chat").connection != played.connection


@pytest.mark.parametrize("script", ["length-too-long"])
def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(site: Site, script: str) -> None:
    with site.connect() as connection:
        connection.send(site.script(script, stream=False))
        with contextlib.suppress(NotHttp):
            assert connection.answer("POST").status == 502


@pytest.mark.parametrize("script", ["plain-type", "capital-type", "engine-error-event", "trailers"])
def test_a_stream_of_any_sort_passes_live(site: Site, script: str) -> None:
    answer = answer_to(site, script)
    assert answer.status == 200
    types = {"plain-type": "text/event-stream", "capital-type": "Text/Event-Stream"}
    assert answer.value("content-type") == types.get(script, "text/event-stream; charset=utf-8")
    assert answer.body.endswith(DONE.split(b"\r\n")[1])
    first = token("a").split(b"\r\n")[1]
    assert answer.body.startswith(first)
    if script in types:
        (begun, _), (ended, _) = answer.chunks[0], answer.chunks[-1]
        assert ended - begun > 0.2


def test_a_timeout_before_the_head_is_504_and_says_which_one_it_was(site: Site) -> None:
    begun = time.monotonic()
    answer = answer_to(site, "never")
    assert time.monotonic() - begun < float(DEADLINES["FIRST_BYTE"].removesuffix("s")) + 1.0
    assert (answer.status, answer.code) == (504, "engine-timeout")
    assert "first-byte" in answer.json["error"]["message"]


def test_a_timeout_behind_the_head_ends_the_stream(site: Site) -> None:
    data, played = flows(site, "stalls-before-the-first-byte")
    assert_error_event(data, "engine-timeout")
    wait(played.has_left, "the end of the engine's request", 2.0)


def test_what_an_engine_says_when_it_is_busy_is_passed_on(site: Site) -> None:
    for script in ("too-many", "overloaded"):
        assert answer_to(site, script).value("retry-after") == "7"


def test_every_script_is_played_somewhere() -> None:
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py"))
    assert [script for script in SCRIPTS if f'"{script}"' not in text] == []
