"""The cases of the corpus that are stories about streams, a function for each; ``SCENARIOS`` has all there are.

Enters: the running site. Each asserts what its case in ``tests/corpus/attacks.json`` demands in words.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from tests.e2e import scenarios_limits as limits
from tests.e2e import scenarios_tenants as tenants
from tests.e2e.playing import answer_to, flows, last_record, play, played_whole
from tests.e2e.site import wait
from tests.simulators.raw_engine import CHAT, DONE, FORMS, ZEROS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.e2e.site import Site

MIB = 1024 * 1024


def sse_001(site: Site) -> None:
    """Stream five events, 200 ms apart: they reach the caller as they were written, and at once."""
    with site.connect() as connection:
        played = play(site, connection, "five-events")
        answer = connection.head()
        assert answer.status == 200
        assert answer.value("content-type") == "text/event-stream; charset=utf-8"
        assert answer.value("content-length") is None
        assert answer.value("cache-control") == "no-store"
        arrived = list(connection.chunks())
    assert [data.count(b"data: ") for _, data in arrived] == [1] * 6
    assert arrived[-1][1] == b"data: [DONE]\n\n"
    written = played.sent[1:11:2]  # after the head: an event, a pause, an event …
    delays = [at - sent for (at, _), sent in zip(arrived, written, strict=False)]
    assert sorted(delays)[2] < 0.05, delays  # the median: a busy machine delays one of five


def sse_003(site: Site) -> None:
    """Let a caller leave before the first byte: that ends the engine's work, by reset as by half-close."""
    for leave in ("reset", "half_close"):
        with site.connect() as connection:
            played = play(site, connection, "stalls-before-the-first-byte")
            getattr(connection, leave)()
            wait(played.has_left, "the end of the engine's request", 2.0)
        wait(lambda: last_record(site)["outcome"] == "client-left", "the record", 2.0)


def sse_004(site: Site) -> None:
    """Let the engine die mid-stream: one error event, no end of the body, another connection for the next request."""
    for script in ("reset-mid-stream", "fin-mid-stream", "fin-mid-event"):
        data, played = flows(site, script)
        assert_error_event(data, "engine-error")
        wait(lambda: last_record(site)["outcome"] == "engine-died", "the record", 2.0)
        again = played_whole(site, "chat")
        assert again.connection != played.connection


def sse_005(site: Site) -> None:
    """Let a stream end without its last event, but cleanly: it passes as it is, and the record knows."""
    answer = answer_to(site, "ends-without-done")
    assert answer.framing == "chunked"
    assert answer.body.count(b"data: ") == 2
    assert site.record(answer)["outcome"] != "ok"


def sse_006(site: Site) -> None:
    """Let the engine fall silent: the idle deadline ends both sides."""
    begun = time.monotonic()
    data, played = flows(site, "stalls")
    assert 1.5 < time.monotonic() - begun < 5.0
    assert_error_event(data, "engine-timeout")
    wait(played.has_left, "the end of the engine's request", 2.0)
    wait(lambda: last_record(site)["outcome"] == "idle", "the record", 2.0)


def sse_008(site: Site) -> None:
    """Pass a line of 16 MB: nothing is gathered line by line."""
    before = site.memory()
    answer = answer_to(site, "giant-line")
    assert len(answer.body) == len(b"data: ") + 16 * MIB + 2 + len(b"data: [DONE]\n\n")
    assert site.memory() - before < 40 * MIB


def sse_009(site: Site) -> None:
    """Pass single bytes, 10 ms apart, at little cost."""
    before = site.cpu()
    answer = answer_to(site, "trickle")
    assert answer.body == b"data: \n\n" * 12 + b"data" + b"data: [DONE]\n\n"
    assert site.cpu() - before < 1.0


def sse_010(site: Site) -> None:
    """Stop reading while the engine has 100 MB to say: the engine is held back, nothing is hoarded."""
    before = site.memory()
    with site.connect() as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        played = play(site, connection, "flood")
        time.sleep(2.0)
        sent = played.sent_bytes
        assert site.memory() - before < 40 * MIB
        assert sent < 40 * MIB
        time.sleep(0.5)
        assert played.sent_bytes - sent < MIB
        connection.reset()
    wait(played.has_left, "the end of the engine's request", 3.0)


def sse_013(site: Site) -> None:
    """Break the framing of answers: 502 while nothing was out, and never a second answer out of the same bytes."""
    for script in ("length-and-chunked", "two-lengths", "negative-length", "unknown-coding"):
        answer = answer_to(site, script)
        assert (answer.status, answer.code) == (502, "engine-malformed")
    assert answer_to(site, "length-too-short").body == CHAT[:5]
    assert answer_to(site, "second-answer-at-once").body == CHAT
    played = site.raw.asked[-1]
    again = played_whole(site, "chat")
    assert again.connection != played.connection


def sse_016(site: Site) -> None:
    """Answer compressed in spite of everything: it is passed on unopened."""
    before = site.memory()
    answer = answer_to(site, "zipped-stream")
    assert site.raw.asked[-1].header("accept-encoding") == ["identity"]
    assert answer.value("content-encoding") == "gzip"
    assert answer.body == ZEROS
    assert site.memory() - before < 10 * MIB
    assert site.record(answer)["usage"]["estimated"], "nobody has counted it"


def sse_017(site: Site) -> None:
    """Write events with every sort of line end: they pass byte by byte."""
    assert answer_to(site, "all-line-ends").body == FORMS + DONE[DONE.index(b"data") :].removesuffix(b"\r\n")


def sse_018(site: Site) -> None:
    """Let the token expire while its stream runs: who was let in is heard out."""
    now = int(time.time())
    token = site.issuer.token(client_id="cli-2", iat=now - 300, exp=now - 28)
    answer = answer_to(site, "slow-but-steady", token=token)
    assert answer.status == 200
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert site.ask(site.request("/v1/models", token=token)).status == 401


def assert_error_event(data: bytes, code: str) -> None:
    """Check the end of a stream that failed: one error event at an event boundary, and no sign of a good end."""
    *events, last, rest = data.split(b"\n\n")
    assert rest == b""
    assert last.startswith(b'data: {"error":')
    assert f'"code":"{code}"'.encode() in last
    assert not any(b"[DONE]" in event or b'"error"' in event for event in events)
    assert b"half" not in data


SCENARIOS: Mapping[str, Callable[[Site], None]] = {
    "sse-001": sse_001,
    "sse-003": sse_003,
    "sse-004": sse_004,
    "sse-005": sse_005,
    "sse-006": sse_006,
    "sse-008": sse_008,
    "sse-009": sse_009,
    "sse-010": sse_010,
    "sse-013": sse_013,
    "sse-016": sse_016,
    "sse-017": sse_017,
    "sse-018": sse_018,
    "limits-003": sse_010,
    **limits.SCENARIOS,
    **tenants.SCENARIOS,
}
