from __future__ import annotations

import pytest

from gateway.inquiry import Failure, Reply
from gateway.review.diagnosis import Verdict
from gateway.review.engine_findings import beside_the_gateway, over_a_network, process, remedy
from tests.review.patients import KEYLESS, REFUSED, reply

MAIN = ("main at unix:/run/vllm/main.sock", "GATEWAY_ENGINES__MAIN")


@pytest.mark.parametrize("failure", list(Failure))
def test_there_is_something_to_do_about_each_failure(failure: Failure) -> None:
    found = process(*MAIN, Reply(failure=failure))
    assert (found.verdict, found.saw) == (Verdict.BROKEN, failure)
    assert found.do == remedy(failure, MAIN[1])
    assert "{" not in found.do


@pytest.mark.parametrize(
    "status, verdict, saw",
    [
        (200, Verdict.OK, "answers, and /health says 200"),
        (503, Verdict.BROKEN, "/health says 503: the engine core died, and its API still answers"),
        (404, Verdict.WARNING, "answers, and /health says 404, as vLLM never does"),
    ],
)
def test_health_is_what_vllm_means_by_it(status: int, verdict: Verdict, saw: str) -> None:
    found = process(*MAIN, Reply(status))
    assert (found.verdict, found.saw) == (verdict, saw)


def test_an_engine_that_answers_beside_the_gateway_is_warned_of() -> None:
    replies = {
        "10.0.0.5:8000": reply({"version": "0.32.0"}),
        "10.0.0.6:8000": REFUSED,
        "10.0.0.7:8000": KEYLESS,
        "10.0.0.8:8000": reply({"something": "else"}),
    }
    (found,) = beside_the_gateway("main", replies)
    assert found.verdict is Verdict.WARNING
    assert "10.0.0.5:8000" in found.saw
    assert "--host 127.0.0.1" in found.do


def test_an_engine_behind_a_network_is_warned_of_where_it_answers_without_a_key() -> None:
    (found,) = over_a_network("main", reply({"version": "0.32.0"}))
    assert "let only the gateway's host reach this port" in found.do
    assert list(over_a_network("main", Reply(401))) == []
