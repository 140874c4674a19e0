"""Two vLLMs: replicas of which one is killed under load, two aliases, and a restart that nobody could see.

The first is everybody's. The second serves its model under that name too, and is started, killed and started again
here; so these tests run in this order.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.e2e.raw_http import Connection, NotHttp, ask, request
from tests.free_port import free_port
from tests.vllm import real_engine
from tests.vllm.conftest import KEY, policy, started
from tests.vllm.serving import Serving
from tests.vllm.tap import Tap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.raw_http import Answer
    from tests.simulators.issuer import Issuer
    from tests.vllm.real_engine import RealEngine

REQUESTS, AT_ONCE, TOKENS = 100, 10, 24
PATIENCE_S = 60
CHAT = "/v1/chat/completions"
CHATTED = ("POST", CHAT, 200)
WARM_UP = 5
"""Requests of a warm-up for each model: one alone, and four together."""


@dataclass
class Second:
    """The second engine: its port, and what runs there now."""

    port: int
    begin: Callable[[str, int], RealEngine]
    engine: RealEngine

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it anew on the same port."""
        self.engine = self.begin("second-again", self.port)


@pytest.fixture(scope="module")
def second(folder: Path, engine: RealEngine, request: pytest.FixtureRequest) -> Iterator[Second]:
    """Start another one beside the first, whose model has the first one's name as well."""
    with ExitStack() as stack:

        def begin(name: str, port: int) -> RealEngine:
            names = ("--served-model-name", "org/other", "local")
            return stack.enter_context(started(folder, name, request, *names, port=port))

        port = free_port()
        yield Second(port, begin, begin("second", port))


@pytest.fixture
def before_both(folder: Path, issuer: Issuer) -> Iterator[Callable[[str, str], Serving]]:
    """Start a gateway with two engines, of which the first may have replicas."""
    running: list[Serving] = []

    def start(main: str, second: str) -> Serving:
        place = folder / f"before-both-{len(list(folder.iterdir()))}"
        filled = policy(folder, "two.yaml", issuer)
        urls, key = {"engine": main, "second": second}, real_engine.KEY
        gateway = Serving(place, filled, **urls, engine_key=key, jwks_url=issuer.jwks_url)
        running.append(gateway)
        wait(lambda: ready(gateway, "main") and ready(gateway, "second"), "both engines")
        return gateway

    yield start
    assert [gateway.stop() for gateway in running] == [0] * len(running)


def post(gateway: Serving, number: object, *, model: str = "small", stream: bool = False) -> bytes:
    message = {"role": "user", "content": f"{number} fish"}
    body = {"model": model, "messages": [message], "max_tokens": TOKENS, "ignore_eos": True, "stream": stream}
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    return request(CHAT, gateway.host, method="POST", headers=headers, body=orjson.dumps(body))


def chat(gateway: Serving, number: object, *, model: str = "small") -> Answer:
    with Connection(gateway.address, timeout=PATIENCE_S) as connection:
        connection.send(post(gateway, number, model=model))
        return connection.answer("POST")


def came_whole(gateway: Serving, number: int) -> bool:
    """Ask, every second time for a stream; what fails must say whose fault it was, under an id that is recorded."""
    streams = bool(number % 2)
    with Connection(gateway.address, timeout=PATIENCE_S) as connection:
        connection.send(post(gateway, number, stream=streams))
        answer = connection.head()
        if (answer.value("content-type") or "").startswith("text/event-stream"):
            return ended_well(gateway, answer, connection)
        answer = replace(answer, body=connection._exactly(int(answer.value("content-length") or "")))
    if answer.status == 200:
        return bool(answer.json["usage"]["completion_tokens"] == TOKENS)
    assert answer.status in {502, 503}
    assert (answer.code or "").startswith("engine-")
    assert (answer.value("proxy-status") or "").startswith("vllm-gateway; error=")
    record = gateway.record(answer.value("x-request-id") or "")
    assert (record["verdict"], record["reason"]) == ("failure", answer.code)
    return False


def ended_well(gateway: Serving, head: Answer, connection: Connection) -> bool:
    """Read a stream; one that breaks off must end with an error event."""
    received = b""
    try:
        for _, data in connection.chunks():
            received += data
    except NotHttp:
        assert b"[DONE]" not in received
        error = orjson.loads(received.rstrip().rpartition(b"data: ")[2])["error"]
        assert error["code"].startswith("engine-")
        assert gateway.record(head.value("x-request-id") or "")["outcome"] == "engine-died"
        return False
    assert received.rstrip().endswith(b"[DONE]")
    return True


def replicas(gateway: Serving, engine: str) -> dict[str, dict[str, Any]]:
    report = ask(gateway.ops, request("/readyz", f"127.0.0.1:{gateway.ops[1]}")).json
    found: dict[str, dict[str, Any]] = report["planes"]["two"]["engines"][engine]["replicas"]
    return found


def ready(gateway: Serving, engine: str) -> bool:
    return all(one["state"] == "serving" for one in replicas(gateway, engine).values())


def wait(condition: Callable[[], object], what: str, within: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {within} s"
        time.sleep(0.05)


def chats(engine: RealEngine, mark: int = 0) -> int:
    """Count the chats that it has answered."""
    return engine.served_since(mark).count(CHATTED)


def test_one_killed_under_load_takes_only_its_own_requests_along_and_is_back_behind_its_warm_up(
    before_both: Callable[[str, str], Serving], engine: RealEngine, tap: Tap, second: Second
) -> None:
    gateway = before_both(f"http://127.0.0.1:{tap.port},{second.url}", second.url)
    marks = engine.mark(), second.engine.mark()
    done = threading.Semaphore(0)

    def one(number: int) -> bool:
        try:
            return came_whole(gateway, number)
        finally:
            done.release()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = [pool.submit(one, number) for number in range(REQUESTS)]
        for _ in range(REQUESTS // 4):
            done.acquire()
        second.engine.kill()
        outcomes = Counter(result.result() for result in results)
    assert 1 <= outcomes[False] <= AT_ONCE, "only what was in flight on it"
    assert chats(engine, marks[0]) > 0 < chats(second.engine, marks[1]), "both had some"
    wait(lambda: not replicas(gateway, "second")[second.url]["ready"], "the look at it")
    assert chat(gateway, "still").status == 200
    assert chat(gateway, "no more", model="other").status == 503

    second.start()
    statuses = [chat(gateway, "again", model="other").status]
    while statuses[-1] == 503:
        time.sleep(0.05)
        statuses.append(chat(gateway, "again", model="other").status)
    assert statuses[-1] == 200
    assert chats(second.engine) > 2 * WARM_UP, "both of its models were warmed up before"
    wait(lambda: ready(gateway, "main"), "the replica's return")
    mark = second.engine.mark()
    for number in range(10):
        assert chat(gateway, f"{number} more").status == 200
    assert chats(second.engine, mark) > 0


def test_an_alias_leads_to_its_engine_under_the_name_there(
    before_both: Callable[[str, str], Serving], engine: RealEngine, tap: Tap, second: Second
) -> None:
    gateway = before_both(f"http://127.0.0.1:{tap.port}", second.url)
    marks = engine.mark(), second.engine.mark()
    models = []
    for model in ("small", "other", "other"):
        answer = chat(gateway, "one", model=model)
        assert answer.status == 200
        models.append(answer.json["model"])
    assert models == ["local", "org/other", "org/other"]
    assert (chats(engine, marks[0]), chats(second.engine, marks[1])) == (1, 2)


def test_one_that_sleeps_is_out_until_it_is_woken_and_warm(
    before_both: Callable[[str, str], Serving], tap: Tap, second: Second
) -> None:
    gateway = before_both(f"http://127.0.0.1:{tap.port}", second.url)
    assert second.engine.ask("POST", "/sleep?level=0")[0] == 200
    wait(lambda: replicas(gateway, "second")[second.url]["state"] == "engine-asleep", "the look at it")
    refused = chat(gateway, "psst", model="other")
    assert (refused.status, refused.code) == (503, "engine-asleep")
    assert chat(gateway, "psst").status == 200
    mark = second.engine.mark()
    assert second.engine.ask("POST", "/wake_up?tags=scheduling")[0] == 200
    wait(lambda: chat(gateway, "hey", model="other").status == 200, "its return")
    assert chats(second.engine, mark) > 2 * WARM_UP


def test_a_restart_that_nobody_could_see_is_noticed_and_warmed_up(
    before_both: Callable[[str, str], Serving], engine: RealEngine, tap: Tap, second: Second
) -> None:
    """Between two looks, without a request, another process stands where the engine stood."""
    with Tap(second.engine) as between:
        gateway = before_both(f"http://127.0.0.1:{tap.port}", f"http://127.0.0.1:{between.port}")
        looks = between.sent().count(b"GET /v1/models ")
        wait(lambda: between.sent().count(b"GET /v1/models ") > looks + 1, "a look on a kept connection")
        mark = engine.mark()
        between.engine = engine
        second.engine.kill()
        wait(lambda: "it was started anew" in gateway.log.read_text(), "the look behind it", 1)
        wait(lambda: chats(engine, mark) >= WARM_UP, "its warm-up")
        wait(lambda: chat(gateway, "here", model="either").status == 200, "its return")
