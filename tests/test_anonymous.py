"""What needs no caller is answered as it stands in the policy; everything else is left to the gatehouse."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from gateway.anonymous import Anonymous, Notice
from gateway.policy.decision import Deny
from gateway.policy.model import Endpoint
from gateway.reasons import Malformed, Reason
from gateway.wire.field_lines import FieldLines
from gateway.wire.headers import RequestHeaders
from gateway.wire.target import Target
from tests.policy.planes import plane

PAGE = b"https://ok.example"
ASKS = [(b"access-control-request-method", b"POST"), (b"access-control-request-headers", b"authorization")]
OPEN = replace(plane(), cors_origins=frozenset({PAGE.decode()}), resource="https://llm.example/v1")
DOCUMENT = b"/.well-known/oauth-protected-resource/v1"


def told(method: str, target: bytes, origin: bytes | None = PAGE) -> Notice | Deny | None:
    return Anonymous(OPEN).notice(method, Target.parse(target), RequestHeaders("gateway", origin=origin), ASKS)


def test_the_plane_is_described_to_whoever_passes_its_edge() -> None:
    notice = told("GET", DOCUMENT)
    assert isinstance(notice, Notice)
    assert notice.locked
    assert orjson.loads(notice.body)["resource"] == "https://llm.example/v1"


@pytest.mark.parametrize(
    "method, target, reason",
    [("POST", DOCUMENT, Reason.METHOD_NOT_ALLOWED), ("GET", DOCUMENT + b"?a=b", Reason.QUERY_NOT_ACCEPTED)],
)
def test_the_document_is_plainly_asked_for(method: str, target: bytes, reason: Reason) -> None:
    denied = told(method, target)
    assert isinstance(denied, Deny)
    assert denied.reason is reason


def test_a_request_line_leads_to_a_notice_or_an_endpoint_or_to_nothing() -> None:
    def found(method: str, target: Target | Malformed | None) -> Notice | Deny | Endpoint:
        return Anonymous(OPEN).found(method, target, RequestHeaders("gateway", origin=PAGE), FieldLines.of(ASKS))

    assert isinstance(found("OPTIONS", Target.parse(b"/v1/chat/completions")), Notice)
    assert isinstance(found("POST", Target.parse(b"/v1/chat/completions")), Endpoint)
    assert found("POST", Target.parse(b"/metrics")) == Deny(Reason.NO_SUCH_ENDPOINT)
    with pytest.raises(Malformed, match="twice"):
        found("POST", Malformed(Reason.TARGET_NOT_CANONICAL, "a slash stands there twice"))


def test_a_page_of_a_listed_origin_is_told_what_it_may_send() -> None:
    notice = told("OPTIONS", b"/v1/chat/completions")
    assert isinstance(notice, Notice)
    assert b"access-control-allow-headers: authorization\r\n" in notice.lines
    assert (notice.body, notice.locked) == (b"", False)
    assert b"access-control-allow-origin: https://ok.example\r\n" in Anonymous(OPEN).lines(PAGE)


@pytest.mark.parametrize(
    "method, target, origin",
    [
        ("OPTIONS", b"/v1/chat/completions", b"https://evil.example"),
        ("OPTIONS", b"/v1/chat/completions", None),
        ("OPTIONS", b"/metrics", PAGE),
        ("POST", b"/v1/chat/completions", PAGE),
    ],
)
def test_everything_else_needs_a_caller(method: str, target: bytes, origin: bytes | None) -> None:
    assert told(method, target, origin) is None


def test_a_plane_that_says_nothing_has_nothing_to_tell() -> None:
    closed = Anonymous(plane())
    assert closed.metadata is None
    assert closed.lines(PAGE) == ()
    assert closed.notice("OPTIONS", Target.parse(b"/v1/models"), RequestHeaders("gateway", origin=PAGE), ASKS) is None


def test_a_question_is_plain_where_its_target_leads_to_one_endpoint_and_no_notice() -> None:
    plain = Anonymous(OPEN).plain_questions()
    assert plain["POST", b"/v1/chat/completions"] is OPEN.endpoints[b"/v1/chat/completions"]["POST"]
    assert set(plain) == {(method, path) for path, methods in OPEN.endpoints.items() for method in methods}
    model = OPEN.endpoints[b"/v1/chat/completions"]["POST"]
    hidden = replace(OPEN, endpoints={**OPEN.endpoints, DOCUMENT: {"GET": model}, b"/sleep": {"POST": SLEEP}})
    assert set(Anonymous(hidden).plain_questions()) == set(plain)


SLEEP = replace(
    OPEN.endpoints[b"/v1/chat/completions"]["POST"], dialect="engine-sleep", query={"level": frozenset({"1"})}
)
