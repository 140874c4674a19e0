from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from gateway.adapters.metrics import Metrics
from gateway.adapters.ops import CallerReadiness, EngineReadiness, PlaneReadiness, Readiness, Workers, ops_app
from gateway.wire.hosts import HostRule

HOSTS = HostRule.of_tcp(9090, [], loopback=True, ip_literals=True)
READY = Readiness(
    ready=True,
    planes={
        "partner": PlaneReadiness(
            ready=True,
            policy="f" * 64,
            listener="public",
            open=True,
            not_enforced=("limits.standard",),
            callers={"partner-idp": CallerReadiness(ready=True, age_s=12.5)},
            engines={"main": EngineReadiness(ready=True, state="serving", models=("small",))},
        )
    },
)
NOT_READY = Readiness(ready=False, problems=("draining",))


async def exposition() -> bytes:
    return Metrics().render()


def _client(report: Readiness = READY, *, loopback: bool = True, token: str | None = None) -> TestClient:
    async def readiness() -> Readiness:
        return report

    app = ops_app(readiness, exposition, HOSTS, loopback=loopback, token=token)
    return TestClient(app, base_url="http://127.0.0.1:9090")


def test_a_process_that_answers_is_alive() -> None:
    with _client() as client:
        answer = client.get("/livez")
    assert (answer.status_code, answer.json()) == (200, {"alive": True})


@pytest.mark.parametrize("running, status", [(1, 200), (0, 503)])
def test_several_processes_are_alive_while_one_of_them_is(running: int, status: int) -> None:
    async def nobody_asks() -> Readiness:
        return NOT_READY

    app = ops_app(nobody_asks, exposition, HOSTS, loopback=True, workers=lambda: Workers(2, running))
    answer = TestClient(app, base_url="http://127.0.0.1:9090").get("/livez")
    assert (answer.status_code, answer.json()) == (
        status,
        {"alive": bool(running), "workers": {"of": 2, "running": running}},
    )


def test_a_ready_gateway_lists_what_it_is_ready_for() -> None:
    answer = _client().get("/readyz")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "ready": True,
        "planes": {
            "partner": {
                "ready": True,
                "policy": "f" * 64,
                "listener": "public",
                "open": True,
                "not_enforced": ["limits.standard"],
                "callers": {"partner-idp": {"ready": True, "age_s": 12.5, "detail": ""}},
                "engines": {
                    "main": {"ready": True, "state": "serving", "models": ["small"], "missing": [], "replicas": {}}
                },
            }
        },
        "problems": [],
    }


def test_one_that_is_not_ready_says_so_with_503() -> None:
    answer = _client(NOT_READY).get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problems"] == ["draining"]


def test_metrics_are_open_on_loopback() -> None:
    answer = _client().get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "gateway_build_info" in answer.text


def test_beyond_loopback_metrics_need_the_token() -> None:
    client = _client(loopback=False, token="secret")
    assert client.get("/metrics", headers={"authorization": "Bearer secret"}).status_code == 200
    assert client.get("/metrics", headers={"authorization": "bearer secret"}).status_code == 200
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("authorization", "Bearer other")],
        [("authorization", "Bearer ")],
        [("authorization", "secret")],
        [("authorization", "Basic secret")],
        [("authorization", "Bearer secret "), ("authorization", "Bearer secret")],
        [("authorization", b"Bearer \xff")],
    ],
)
def test_any_other_credential_is_refused_with_a_challenge(fields: Any) -> None:  # noqa: ANN401
    answer = _client(loopback=False, token="secret").get("/metrics", headers=fields)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "gateway_build_info" not in answer.text


def test_beyond_loopback_without_a_token_metrics_are_never_given() -> None:
    for credential in ("Bearer ", "Bearer None", "Bearer"):
        answer = _client(loopback=False).get("/metrics", headers={"authorization": credential})
        assert answer.status_code == 401
        assert "GATEWAY_OPS_TOKEN" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/livez/", "/v1/models", "/docs", "/readyz/x"])
def test_nothing_else_exists(path: str) -> None:
    answer = _client().get(path, follow_redirects=False)
    assert (answer.status_code, answer.json()) == (404, {"error": "Not Found"})


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_nothing_can_be_changed(path: str) -> None:
    answer = _client().post(path)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert _client().head(path).status_code == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/none"])
def test_every_answer_is_kept_from_caches_and_browsers(path: str) -> None:
    headers = _client().get(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host,status",
    [("127.0.0.1:9090", 200), ("10.2.3.4:9090", 200), ("localhost:9090", 200), ("evil.example", 421), ("a/b", 400)],
)
def test_only_addresses_and_own_names_are_served(host: str, status: int) -> None:
    """A page in a browser of the same machine could otherwise read this listener by DNS rebinding."""
    assert _client().get("/livez", headers={"host": host}).status_code == status


def test_two_hosts_are_malformed() -> None:
    answer = _client().get("/livez", headers=[("host", "127.0.0.1:9090"), ("host", "127.0.0.1:9090")])
    assert answer.status_code == 400


def test_a_bug_of_ours_is_told_without_its_message() -> None:
    async def broken() -> Readiness:
        raise RuntimeError("secret")

    app = ops_app(broken, exposition, HOSTS, loopback=True)
    client = TestClient(app, base_url="http://127.0.0.1:9090", raise_server_exceptions=False)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (500, {"error": "The gateway failed."})
