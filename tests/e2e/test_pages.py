"""A web page asks as browsers do: first whether it may, then with its token; and it can read what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from tests.e2e.pair import Two, two
from tests.e2e.raw_http import Answer, ask, request
from tests.e2e.site import CHAT, HOST, MODELS, wait
from tests.small_house import KEY, POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE, OTHER = "https://ok.example", "https://evil.example"
OPEN = POLICY.replace("limits:\n", f"cors:\n  origins: ['{PAGE}']\n\nlimits:\n", 1)
TOKEN = {"Authorization": f"Bearer {KEY}"}
HI = {"model": "local", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Run a gateway whose policy lets one page read."""
    with two(tmp_path_factory.mktemp("pages"), OPEN) as one:
        wait(lambda: one.ready(0) and one.ready(1), "the engines", 20)
        yield one


def asked(
    site: Two,
    target: str,
    method: str = "GET",
    *,
    origin: str | None = PAGE,
    fields: Mapping[str, str] | None = None,
    body: object = None,
) -> Answer:
    headers = {**({"Origin": origin} if origin else {}), **(fields or {})}
    data = None if body is None else orjson.dumps(body)
    if data is not None:
        headers["Content-Type"] = "application/json"
    return ask(site.address, request(target, f"{HOST}:{site.address[1]}", method=method, headers=headers, body=data))


def preflight(site: Two, target: str, method: str, *, origin: str = PAGE) -> Answer:
    fields = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,content-type"}
    return asked(site, target, "OPTIONS", origin=origin, fields=fields)


def reached(site: Two) -> int:
    return sum(len(engine.asked) for engine in site.engines)


@pytest.mark.parametrize("target, method", [(CHAT, "POST"), (MODELS, "GET")])
def test_cors_01_a_preflight_needs_no_credential_and_reaches_no_engine(site: Two, target: str, method: str) -> None:
    before = reached(site)
    answer = preflight(site, target, method)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.value("access-control-allow-origin") == PAGE
    assert method in (answer.value("access-control-allow-methods") or "")
    assert answer.value("access-control-allow-headers") == "authorization, content-type"
    assert answer.value("access-control-allow-credentials") is None
    assert reached(site) == before
    assert preflight(site, target, method, origin=OTHER).status == 405


def test_cors_03_a_page_loads_the_models_with_its_token_alone(site: Two) -> None:
    assert preflight(site, MODELS, "GET").status == 200
    answer = asked(site, MODELS, fields=TOKEN)
    assert "local" in {model["id"] for model in answer.json["data"]}
    assert (answer.value("access-control-allow-origin"), answer.value("vary")) == (PAGE, "Origin")
    assert asked(site, MODELS).status == 401


@pytest.mark.parametrize(
    "target, method, fields, body, status",
    [
        (MODELS, "GET", {}, None, 401),
        ("/metrics", "GET", TOKEN, None, 404),
        (CHAT, "POST", TOKEN, {**HI, "model": "elsewhere"}, 404),
        (CHAT, "POST", TOKEN, {**HI, "messages": [{"role": "user", "content": "x" * (1 << 20)}]}, 413),
        (CHAT, "POST", TOKEN, {**HI, "n": 9}, 400),
        (CHAT, "POST", TOKEN, HI, 200),
        (CHAT, "POST", TOKEN, {**HI, "stream": True}, 200),
    ],
)
def test_cors_05_whatever_the_answer_the_page_may_read_status_and_id(
    site: Two, target: str, method: str, fields: dict[str, str], body: object, status: int
) -> None:
    answer = asked(site, target, method, fields=fields, body=body)
    assert (answer.status, answer.value("access-control-allow-origin")) == (status, PAGE)
    exposed = (answer.value("access-control-expose-headers") or "").split(", ")
    assert {"retry-after", "x-request-id"} <= set(exposed)


def test_cors_07_another_page_may_not_read_and_the_engines_own_grant_does_not_pass(site: Two) -> None:
    for origin in (OTHER, "null", f"{PAGE}/", None):
        answer = asked(site, CHAT, "POST", origin=origin, fields=TOKEN, body=HI)
        assert (answer.status, answer.value("vary")) == (200, "Origin")
        assert not [name for name, _ in answer.headers if name.startswith("access-control-")]


def test_head_is_get_without_its_body(site: Two) -> None:
    answer = asked(site, MODELS, "HEAD", fields=TOKEN)
    assert (answer.status, answer.body) == (200, b"")
    assert asked(site, CHAT, "HEAD", fields=TOKEN).status == 405
