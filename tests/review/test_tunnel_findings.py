from __future__ import annotations

import pytest

from gateway.inquiry import Failure, Reply
from gateway.review.diagnosis import Verdict
from gateway.review.tunnel_findings import is_cloudflare, reached, refused
from tests.review.patients import REFUSED, SILENT, ours

URL = "https://llm.example.com"
EDGE = {"server": "cloudflare", "cf-ray": "8a1b-FRA"}
LOGIN = "https://team.cloudflareaccess.com/cdn-cgi/access/login/llm.example.com"


@pytest.mark.parametrize(
    "answer, is_its",
    [
        (Reply(200, EDGE), True),
        (Reply(200, {"server": "Cloudflare"}), True),
        (Reply(200, {"cf-ray": "x"}), True),
        (Reply(200, {"server": "nginx"}), False),
    ],
)
def test_cloudflare_is_known_by_its_fields(answer: Reply, *, is_its: bool) -> None:
    assert is_cloudflare(answer) is is_its


@pytest.mark.parametrize(
    "failure, step, do",
    [
        (Failure.NO_NAME, "DNS: ", "cloudflared tunnel route dns"),
        (Failure.TLS, "TLS: ", "certificate"),
        (Failure.REFUSED, "connection: ", "is the name this service's"),
        (Failure.NO_CONNECTION, "connection: ", "network"),
    ],
)
def test_clients_14_the_step_at_which_it_ends_is_told(failure: Failure, step: str, do: str) -> None:
    found = reached(URL, Reply(failure=failure))
    assert found.verdict is Verdict.BROKEN
    assert found.saw.startswith(step)
    assert do in found.do


def test_the_gateways_own_answer_is_well_unless_it_does_not_serve_the_name() -> None:
    found = reached(URL, ours(401, "credential-missing"))
    assert found.verdict is Verdict.OK
    assert found.saw == f"the gateway answers 401 credential-missing to nobody (request {'0' * 32})"
    found = reached(URL, ours(421, "host-not-served"))
    assert found.verdict is Verdict.BROKEN
    assert "GATEWAY_HOSTS__<LISTENER>" in found.do


@pytest.mark.parametrize(
    "answer, saw, do",
    [
        (Reply(502, EDGE), "cloudflared does not reach its origin", "'service'"),
        (Reply(502), "cloudflared does not reach its origin", "'service'"),
        (Reply(520, EDGE), "the origin answered with no HTTP", "scheme and port"),
        (Reply(521, EDGE), "refuses connections", "DNS record"),
        (Reply(522, EDGE), "no connection to the origin in time", "firewall"),
        (Reply(523, EDGE), "no route", "DNS record"),
        (Reply(524, EDGE), "longer than 100 s", "let callers stream"),
        (Reply(525, EDGE), "TLS handshake", "http or https?"),
        (Reply(526, EDGE), "not believed", "caPool"),
        (Reply(530, EDGE), "no tunnel is connected", "protocol: http2"),
        (Reply(530, EDGE, b"error code: 1033"), "530 with 1033", "protocol: http2"),
        (Reply(530, EDGE, b"<h1>Error\n<span class='x'>1033</span></h1>"), "with 1033", "journalctl -u cloudflared"),
        (Reply(530, EDGE, b"error code: 1016"), "with 1016", "route dns"),
        (Reply(403, EDGE, b"error code: 1020"), "403, refused by the edge, ray 8a1b-FRA", "SDKs"),
        (Reply(429, EDGE), "429, refused by the edge", "SDKs"),
        (Reply(404, EDGE), "404, neither from the gateway nor", "who answers"),
        (Reply(200), "200, neither from the gateway nor", "who answers"),
        (Reply(301, {"location": "https://elsewhere.example/"}), "301, neither from the gateway", "who answers"),
    ],
)
def test_each_page_of_the_edge_says_what_is_broken(answer: Reply, saw: str, do: str) -> None:
    found = reached(URL, answer)
    assert found.verdict is Verdict.BROKEN
    assert saw in found.saw
    assert do in found.do


@pytest.mark.parametrize(
    "answer", [Reply(302, {**EDGE, "location": LOGIN}), Reply(403, {**EDGE, "cf-access-domain": "llm.example.com"})]
)
def test_access_before_the_gateway_is_as_it_should_be_and_hides_the_rest(answer: Reply) -> None:
    found = reached(URL, answer)
    assert found.verdict is Verdict.WARNING
    assert "Access answers before the gateway" in found.saw


def test_a_way_past_the_gateway_is_told() -> None:
    replies = {
        ("POST", "/invocations"): Reply(200),
        ("GET", "/metrics"): ours(404, "no-such-endpoint"),
        ("GET", "/"): SILENT,
    }
    (found,) = refused(URL, replies)
    assert (found.verdict, found.saw) == (Verdict.BROKEN, "POST /invocations: 200, and not from the gateway")
    assert list(refused(URL, {("GET", "/"): REFUSED})) == []
