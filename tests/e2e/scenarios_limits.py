"""The cases of the corpus that are stories about limits, logs and time, one function for each.

Enters: the running site. Each asserts what its case in ``tests/corpus/attacks.json`` demands in words.
"""

from __future__ import annotations

import contextlib
import re
import socket
import statistics
import time
from typing import TYPE_CHECKING

from tests.e2e.playing import answer_to
from tests.e2e.site import CHAT, DEADLINES, ENGINE_KEY, HI, KEYS, MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.e2e.site import Site

MIB = 1024 * 1024
HEAD_S = float(DEADLINES["HEAD"].removesuffix("s"))
BODY_S = float(DEADLINES["BODY"].removesuffix("s"))
MANY = 1000
"""Requests to unknown paths: the corpus has 20,000, which show nothing that these do not."""


def limits_001(site: Site) -> None:
    """Dribble 60 heads: each ends at its deadline, and others are served meanwhile."""
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(site.connect()) for _ in range(60)]
        head = site.request(MODELS)
        for byte in head[: int(HEAD_S / 0.5) + 2]:
            for connection in slow:
                connection.send(bytes([byte]))
            time.sleep(0.5)
        asked = time.monotonic()
        assert site.ask(head).status == 200
        assert time.monotonic() - asked < 1.0
        for connection in slow:
            answer = connection.answer()
            assert (answer.status, answer.code) == (408, "request-timeout")
            assert connection.ended()
    assert time.monotonic() - begun < HEAD_S + 3.0 + 2.0


def limits_002(site: Site) -> None:
    """Dribble a body: it ends at its deadline."""
    fields = {"Content-Length": "10000", "Content-Type": "application/json"}
    begun = time.monotonic()
    with site.connect() as connection:
        connection.send(site.request(CHAT, "POST", fields=fields))
        for _ in range(int(BODY_S)):
            connection.send(b" ")
            time.sleep(1.0)
        answer = connection.answer("POST")
    assert (answer.status, answer.code) == (408, "request-timeout")
    assert time.monotonic() - begun < BODY_S + 3.0


def limits_004(site: Site) -> None:
    """Send 10,000 fields."""
    head = site.request(MODELS).removesuffix(b"\r\n") + b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + b"\r\n"
    refused_early(site, head)


def limits_005(site: Site) -> None:
    """Send a field of 300 KB."""
    refused_early(site, site.request(MODELS, fields={"X-A": "y" * 300_000}))


def refused_early(site: Site, data: bytes) -> None:
    """Check that a head is refused for its size, and costs little."""
    before = site.memory()
    answer = site.ask(data)
    assert (answer.status, answer.code) == (431, "headers-too-large")
    assert answer.closes
    assert site.memory() - before < 10 * MIB


def limits_011(site: Site) -> None:
    """Ask for many unknown paths: a record for each, no label, and no flood of log lines."""
    series, lines = len(site.metrics().splitlines()), len(site.log().splitlines())
    records = site.audit().count(b"\n")
    with site.connect() as connection:
        for n in range(MANY):
            connection.send(site.request(f"/random-{n}", token=None))
            assert connection.answer().status == 404
    assert len(site.metrics().splitlines()) - series < 10
    assert len(site.log().splitlines()) - lines < 10
    assert "random-" not in site.metrics()
    time.sleep(0.2)
    assert site.audit().count(b"\n") - records == MANY


def limits_014(site: Site) -> None:
    """Ask for the model of an engine that is down."""
    token = site.issuer.token(client_id="cli-2")
    for stream in (True, False):
        answer = site.chat(token=token, model="down", stream=stream)
        assert (answer.status, answer.code) == (503, "engine-unavailable")
        assert not re.search(rb"127\.0\.0\.1|Traceback|Errno", answer.body)


def limits_015(site: Site) -> None:
    """Let the engine fail with its inside in the body: nothing of it is passed on."""
    answer = answer_to(site, "broken")
    assert (answer.status, answer.code) == (502, "engine-error")
    assert not re.search(rb"Traceback|/models|EngineCore", answer.body)


def limits_016(site: Site) -> None:
    """Answer with 256 MB: they pass through, and stay nowhere."""
    before = site.memory()
    answer = answer_to(site, "huge")
    assert (answer.status, len(answer.body)) == (200, 256 * MIB)
    assert site.memory() - before < 40 * MIB


def trust_006(site: Site) -> None:
    """Knock at every address of the machine that is not loopback."""
    addresses = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses:
        if not str(address).startswith("127."):
            with socket.socket() as knocking:
                assert knocking.connect_ex((str(address), site.address[1])) != 0


def log_007(site: Site) -> None:
    """Send secrets wherever they can stand, and look for them wherever anything is written."""
    prompt, canary = "what the canary sang", "canary-7f3a"
    tokens = [site.issuer.token(), site.issuer.token(key="ATT"), site.issuer.token(iat=1, exp=2), f"vgw_{canary}"]
    bodies = []
    for token in (*tokens, *KEYS.values()):
        for body in ({**HI, "messages": [{"role": "user", "content": prompt}]}, {**HI, canary: prompt}, [prompt]):
            fields = {"Cookie": f"CF_Authorization={canary}", "Cf-Access-Client-Secret": canary, "X-Api-Key": canary}
            answer = site.ask(site.request(token=token, body=body, fields=fields))
            if answer.status != 200:
                bodies.append(
                    answer.body.replace(b'"param":"%b"' % canary.encode(), b"").replace(canary.encode(), b"", 1)
                )
        bodies.append(site.ask(site.request(f"{MODELS}?access_token={token}", token=None)).body)
    written = [site.log().encode(), site.audit(), site.metrics().encode(), *bodies]
    secrets = [
        prompt,
        "vgw_canary",
        ENGINE_KEY,
        *KEYS.values(),
        *tokens,
        *(token.rpartition(".")[2] for token in tokens),
    ]
    for secret in secrets:
        assert not [text for text in written if secret.encode() in text], secret


def timing_002(site: Site) -> None:
    """Compare a key that is known but no longer good with one that never was: one answer, in one time."""
    took: dict[str, list[float]] = {KEYS["KEY-FORMER"]: [], "ak_live_unknown": []}
    answers = set()
    with site.connect() as connection:
        for _ in range(60):
            for key, times in took.items():
                request = site.request(MODELS, token=key)
                begun = time.perf_counter()
                connection.send(request)
                answer = connection.answer()
                times.append(time.perf_counter() - begun)
                answers.add((answer.status, answer.body, answer.value("www-authenticate")))
    assert len(answers) == 1
    known, unknown = (statistics.median(times) for times in took.values())
    assert abs(known - unknown) < 0.005


def timing_003(site: Site) -> None:
    """Check a key by one fast hash: hundreds of requests take no second of processor time."""
    before = site.cpu()
    with site.connect() as connection:
        for _ in range(300):
            connection.send(site.request(MODELS, token=KEYS["KEY-ABC"]))
            assert connection.answer().status == 200
    assert site.cpu() - before < 1.5


def timing_006(site: Site) -> None:
    """Ask without a credential: what does not exist is 404, what exists is 401 or 405, in every spelling alike."""
    for method, target, status in (
        ("GET", MODELS, 401),
        ("POST", CHAT, 401),
        ("GET", CHAT, 405),
        ("DELETE", MODELS, 405),
        ("GET", "/metrics", 404),
        ("POST", "/metrics", 404),
        ("DELETE", "/nothing", 404),
        ("GET", "/V1/MODELS", 404),
        ("GET", "/v1/models/", 404),
    ):
        body = HI if method == "POST" else None
        answer = site.ask(site.request(target, method, token=None, body=body))
        assert answer.status == status, f"{method} {target}"


SCENARIOS: Mapping[str, Callable[[Site], None]] = {
    "limits-001": limits_001,
    "limits-002": limits_002,
    "limits-004": limits_004,
    "limits-005": limits_005,
    "limits-011": limits_011,
    "limits-014": limits_014,
    "limits-015": limits_015,
    "limits-016": limits_016,
    "trust-006": trust_006,
    "log-007": log_007,
    "timing-002": timing_002,
    "timing-003": timing_003,
    "timing-006": timing_006,
}
