"""The reports about what stands at the door: one test for each, as in ``test_reports``."""

from __future__ import annotations

import contextlib
import gzip
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.asking import forwarded, refused
from tests.e2e.playing import answer_to, flows, played_whole
from tests.e2e.raw_http import Connection, NotHttp, ask, request
from tests.e2e.scenarios import assert_error_event
from tests.e2e.site import CHAT, ENGINE_KEY, HI, MODELS, MOST_TOKENS
from tests.simulators.raw_engine import CHAT as WHOLE
from tests.simulators.raw_engine import ZEROS, ZIPPED_CHAT

if TYPE_CHECKING:
    from tests.e2e.site import Site

MIB = 1024 * 1024
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize("token", [None, "bad", ""])
@pytest.mark.parametrize("target", ["/v1/realtime?model=m", MODELS, CHAT])
def test_auth_03_an_upgrade_is_refused_before_anything_else(site: Site, token: str | None, target: str) -> None:
    answer = refused(site, site.request(target, token=token, fields=UPGRADE), 400, "headers-malformed")
    assert answer.closes


def test_auth_05_the_engines_key_is_for_callers_who_proved_who_they_are(site: Site) -> None:
    before = len(site.engine.requests)
    refused(site, site.request(token=None, body=HI), 401, "credential-missing")
    refused(site, site.request(token=None, fields=UPGRADE), 400, "headers-malformed")
    keyed = [seen for seen in site.engine.requests[before:] if not seen.own_traffic and seen.header("authorization")]
    assert keyed == []


@pytest.mark.parametrize("agent", ["GoogleHC/1.0", "kube-probe/1.29", "ELB-HealthChecker/2.0"])
def test_auth_07_no_user_agent_opens_a_door(site: Site, agent: str) -> None:
    refused(site, site.request(MODELS, token=None, fields={"User-Agent": agent}), 401, "credential-missing")


def test_auth_17_who_a_caller_is_comes_from_the_credential_alone(site: Site) -> None:
    names = ("X-Forwarded-User", "X-Forwarded-Email", "X-Remote-User", "Cf-Access-Authenticated-User-Email")
    data = site.request(body=HI, token=site.issuer.token(sub="alice"), fields=dict.fromkeys(names, "admin"))
    seen = forwarded(site, data)
    assert not [name for name, value in seen.headers if value == "admin"]
    assert "admin" not in site.metrics()
    assert b"admin" not in site.audit()
    assert b'"subject":"alice"' in site.audit()


@pytest.mark.parametrize("target", ["/v1/%2e%2e/sleep", "/v1/models/%2e%2e/%2e%2e/sleep", "/v1/%252e%252e/sleep"])
def test_path_06_what_is_escaped_is_not_decoded(site: Site, target: str) -> None:
    for method, body in (("GET", None), ("POST", {})):
        answer = refused(site, site.request(target, method, body=body))
        assert site.record(answer)["reason"] == "target-not-canonical"


@pytest.mark.parametrize(
    "line, fields",
    [
        ("GET http://evil.example/v1/models", "Host: {host}"),
        ("GET /v1/models", "Host: {host}\r\nHost: {host}"),
        ("GET /v1/models", "X: y"),
        ("CONNECT 127.0.0.1:1", "Host: {host}"),
        ("TRACE /v1/models", "Host: {host}"),
        ("post /v1/chat/completions", "Host: {host}"),
        ("POST /v1/chat/completions", "Host: {host}\r\nContent-Length: 2\r\nTransfer-Encoding: chunked"),
        ("POST /v1/chat/completions", "Host: {host}\r\nContent-Length: -2"),
        ("POST /v1/chat/completions", "Host: {host}\r\nContent-Length: 2\r\nContent-Length: 3"),
        ("GET /v1/mod\rels", "Host: {host}"),
    ],
)
def test_path_12_odd_framing_is_refused(site: Site, line: str, fields: str) -> None:
    before = len(site.reached())
    answer = site.ask(f"{line} HTTP/1.1\r\n{fields.format(host=site.host)}\r\n\r\n{{}}".encode("latin-1"))
    assert 400 <= answer.status < 500
    assert len(site.reached()) == before


@pytest.mark.parametrize(
    "body", [b'{"a":' * 100_000, b"[" * 200_000, b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}"]
)
def test_body_08_depth_costs_nothing(site: Site, body: bytes) -> None:
    begun = time.monotonic()
    refused(site, site.request(body=body), 400, "body-malformed")
    assert time.monotonic() - begun < 1.0
    assert site.chat().status == 200


@pytest.mark.parametrize("script", ["fin-mid-stream", "fin-mid-event"])
def test_stream_06_a_stream_that_breaks_off_does_not_look_whole(site: Site, script: str) -> None:
    data, _ = flows(site, script)
    assert_error_event(data, "engine-error")
    with site.connect() as connection:
        connection.send(site.script("length-too-long", stream=False))
        with pytest.raises(NotHttp):
            connection.answer("POST")


def test_stream_08_silence_ends_a_stream_and_slowness_does_not(site: Site) -> None:
    data, _ = flows(site, "stalls")
    assert_error_event(data, "engine-timeout")
    assert answer_to(site, "slow-but-steady").body.endswith(b"data: [DONE]\n\n")


def test_stream_10_a_timeout_has_a_name_and_an_id(site: Site) -> None:
    answer = answer_to(site, "never")
    assert (answer.status, answer.code) == (504, "engine-timeout")
    assert answer.value("x-request-id")
    assert "first-byte" in str(answer.headers) + answer.body.decode()


@pytest.mark.parametrize(
    "script, content_type", [("plain-type", "text/event-stream"), ("capital-type", "Text/Event-Stream")]
)
def test_stream_14_the_content_type_of_a_stream_is_the_engines(site: Site, script: str, content_type: str) -> None:
    answer = answer_to(site, script)
    assert answer.value("content-type") == content_type
    assert answer.chunks[-1][0] - answer.chunks[0][0] > 0.2


def test_headers_01_no_credential_of_the_caller_goes_on(site: Site) -> None:
    marker = "marker-5d1c"
    names = (
        "X-Api-Key",
        "Api-Key",
        "Proxy-Authorization",
        "Cookie",
        "Cf-Access-Client-Secret",
        "Cf-Access-Jwt-Assertion",
    )
    for name in names:
        answer = site.ask(site.request(body=HI, fields={name: marker}))
        assert answer.status in {200, 400}, name
    written = str([(seen.target, seen.headers, seen.body) for seen in site.reached()])
    assert marker not in written
    assert all(seen.header("authorization") == [f"Bearer {ENGINE_KEY}"] for seen in site.reached())


def test_headers_03_what_may_stand_once_stands_once(site: Site) -> None:
    seen = forwarded(site, site.request(body=HI, fields={"X-Api-Key": "x", "HOST-X": "y", "content-TYPE-x": "z"}))
    for name in ("authorization", "host", "content-type", "content-length"):
        assert len(seen.header(name)) == 1
    twice = site.request(body=HI).replace(b"Authorization:", b"authorization: Bearer x\r\nAUTHORIZATION:")
    refused(site, twice, 400, "credential-ambiguous")


def test_headers_05_what_is_compressed_stays_so_and_says_so(site: Site) -> None:
    whole = site.ask(site.script("zipped-chat", stream=False))
    assert (whole.value("content-encoding"), gzip.decompress(whole.body)) == ("gzip", gzip.decompress(ZIPPED_CHAT))
    stream = answer_to(site, "zipped-stream")
    assert stream.body == ZEROS
    for answer in (whole, stream):
        assert site.record(answer)["usage"]["completion"] == MOST_TOKENS, "as reserved: nobody looked into it"
    assert site.raw.asked[-1].header("accept-encoding") == ["identity"]


def test_headers_07_lengths_are_counted_anew_and_hop_by_hop_fields_end_here(site: Site) -> None:
    for content in ("hi", "ä" * 1000, "🦊"):
        seen = forwarded(site, site.request(body={**HI, "messages": [{"role": "user", "content": content}]}))
        assert seen.header("content-length") == [str(len(seen.body))]
        assert seen.json["messages"][0]["content"] == content
    answer = site.ask(site.script("hop-by-hop", stream=False))
    assert answer.body == WHOLE
    for name in ("x-foo", "connection", "keep-alive", "set-cookie"):
        assert answer.values(name) == []
    assert answer_to(site, "length-and-chunked").code == "engine-malformed"


@pytest.mark.parametrize("name", ["X_Api_Key", "Authorization_", "x-forwarded_for"])
def test_headers_09_names_with_underscores_are_nobodys(site: Site, name: str) -> None:
    seen = forwarded(site, site.request(body=HI, fields={name: "underscored"}))
    assert "underscored" not in str(seen.headers)


def test_headers_09_a_blank_before_the_colon_is_refused(site: Site) -> None:
    refused(site, site.request(body=HI, fields={"X-Forwarded-For ": "1"}), 400, "headers-malformed")


def test_headers_11_answers_without_a_body_break_nothing(site: Site) -> None:
    with site.connect() as connection:
        for script in ("no-content-with-body", "not-modified"):
            connection.send(site.script(script, stream=False))
            assert connection.answer("POST").status == 502
        connection.send(site.request(MODELS, "HEAD"))
        head = connection.answer("HEAD")
        assert (head.status, head.value("allow")) == (405, "GET")
        connection.send(site.request(MODELS))
        assert connection.answer().status == 200
    assert "Traceback" not in site.log()


def test_headers_13_heads_are_bounded_and_those_of_a_front_fit(site: Site) -> None:
    before = site.memory()
    with site.connect() as connection:
        connection.send(b"GET /v1/models HTTP/1.1\r\nHost: " + site.host.encode() + b"\r\nX-A: " + b"y" * MIB)
        assert connection.answer().status == 431
        assert connection.ended(10.0)
    many = "".join(f"X-{n}: y\r\n" for n in range(10_000)).encode()
    for data in (b"X-A: " + b"y" * 10 * MIB + b"\r\n", many):
        answer = site.ask(site.request(MODELS).removesuffix(b"\r\n") + data + b"\r\n")
        assert (answer.status, answer.closes) == (431, True)
    assert site.memory() - before < 20 * MIB
    front = {f"Cf-Field-{n}": "y" * 500 for n in range(30)}
    assert site.ask(site.request(MODELS, fields=front)).status == 200


def test_headers_15_http_1_0_is_answered_without_chunks(site: Site) -> None:
    for data in (site.request(MODELS), site.request(body={**HI, "stream": True})):
        with site.connect() as connection:
            connection.send(data.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))
            answer = connection.answer()
            assert answer.status == 200
            assert answer.values("transfer-encoding") == []
            assert answer.body.endswith((b"data: [DONE]\n\n", b"}"))
            assert connection.ended()


def test_headers_17_a_connection_that_was_used_is_as_good_as_new(site: Site) -> None:
    before = len(site.reached())
    contents = [f"{n}" * (10 ** (n % 4)) for n in range(8)]
    with site.connect() as one, site.connect() as two:
        for n, content in enumerate(contents):
            connection: Connection = (one, two)[n % 2]
            connection.send(site.request(body={**HI, "messages": [{"role": "user", "content": content}]}))
            assert connection.answer("POST").status == 200
        one.send(site.request(body={**HI, "batch_size": 1}))
        assert one.answer("POST").status == 400
        one.send(site.request(body=HI))
        assert one.answer("POST").status == 200
    arrived = [seen.json["messages"][0]["content"] for seen in site.reached()[before:]]
    assert arrived == [*contents, "hi"]


def test_errors_03_a_refusal_of_the_engine_has_a_body_even_for_a_stream(site: Site) -> None:
    answer = answer_to(site, "bad-request")
    assert (answer.status, answer.value("content-type")) == (400, "application/json")
    assert answer.json["error"]["message"] == "said the engine"


def test_errors_05_a_refusal_is_read_even_by_who_is_still_sending(site: Site) -> None:
    body = b"x" * 20 * MIB
    data = site.request(token="bad", body=body)
    for _ in range(5):
        answer = refused(site, data, 401, "credential-invalid")
        assert answer.closes


def test_metrics_03_labels_hold_no_text_of_callers(site: Site) -> None:
    series = len(site.metrics().splitlines())
    with site.connect() as connection:
        for n in range(300):
            connection.send(site.request(body={**HI, "model": f'x{n}"\n'}, fields={"User-Agent": f"agent-{n}"}))
            assert connection.answer("POST").status == 404
    metrics = site.metrics()
    assert len(metrics.splitlines()) - series < 10
    assert not re.search(r"x[0-9]+\"|agent-", metrics)


def test_clients_12_no_comment_stands_before_a_body_of_json(site: Site) -> None:
    answer = site.ask(site.script("late-chat", stream=False))
    assert answer.body == WHOLE


def test_the_ops_listener_keeps_its_head_too(site: Site) -> None:
    with contextlib.suppress(NotHttp):
        assert ask(site.ops, request("/metrics", "evil.example")).status == 421
    assert played_whole(site, "chat").body
