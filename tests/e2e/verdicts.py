"""What must be true of an answer, of what reached the engine, and of the record, case by case.

Enters: a case, an attempt, its answers and what the engine saw meanwhile. Leaves: sentences about what was wrong. What
holds for every answer and every forwarded request is checked for all; what a case demands in words is looked up in
``MUST``, and a demand that stands nowhere is wrong too.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.reasons import PUBLIC, Reason
from tests.e2e.site import CHAT, ENGINE_KEY, MODELS, MOST_TOKENS, REAL_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gateway.simulator.record import Recorded
    from tests.e2e.attempts import Attempt, Case
    from tests.e2e.raw_http import Answer
    from tests.e2e.site import Site

_SALT = re.compile(r"[A-Za-z0-9_-]{43}")
_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
_FORWARDED_FIELDS = {
    "host",
    "authorization",
    "accept",
    "accept-encoding",
    "content-type",
    "content-length",
    "user-agent",
    "x-request-id",
}
_ADDED = {"model", "max_tokens", "max_completion_tokens", "chat_template_kwargs", "cache_salt", "stream_options"}
_NEVER_SENT = {"user", "metadata", "store", "service_tier"}
# What a case tolerates in words, and the value that the gateway passes on and the engine does not take.
_TOLERATED = {"header-036": (408,)}
_REFUSED_BY_THE_ENGINE = {"json-061"}
_INSIDE = re.compile(rb"Traceback|gateway/[a-z_]+\.py|127\.0\.0\.1:(?!9\b)[0-9]+|/models/")


@dataclass(frozen=True, slots=True)
class Seen:
    """One attempt with all that came of it; ``cpu_s`` is the processor time that the gateway used for it."""

    case: Case
    attempt: Attempt
    answers: list[Answer]
    reached: list[Recorded]
    closed: bool
    cpu_s: float
    site: Site

    @property
    def answer(self) -> Answer:
        """The first answer."""
        return self.answers[0]

    @property
    def sent_body(self) -> dict[str, Any]:
        """The JSON that reached the engine."""
        (request,) = self.reached
        value = request.json
        assert isinstance(value, dict)
        return value


def faults(seen: Seen) -> Iterator[str]:
    """Say everything that was wrong."""
    expected = seen.case["expected"]
    for answer in seen.answers:
        yield from _answer_faults(seen, answer)
        if expected["status"] and answer.status not in [*expected["status"], *_TOLERATED.get(seen.case["id"], ())]:
            yield f"answered {answer.status} {answer.code}, expected {expected['status']}"
    if len(seen.answers) != seen.attempt.answers:
        yield f"{len(seen.answers)} answers instead of {seen.attempt.answers}"
    for request in seen.reached:
        yield from _forwarded_faults(seen, request)
    yield from _upstream_faults(seen, expected["upstream"])
    if "reason" in expected:
        yield from _reason_faults(seen, Reason(expected["reason"]))
    if expected.get("connection") == "close" and not (seen.answer.closes and seen.closed):
        yield "the connection was not closed"
    for demand in (*expected.get("must", ()), *expected.get("must_not", ())):
        if demand not in MUST:
            yield f"nobody knows how to check: {demand}"
        elif not MUST[demand](seen):
            yield f"not so: {demand}"


def _answer_faults(seen: Seen, answer: Answer) -> Iterator[str]:
    """Check what holds for every answer of the gateway."""
    if not _REQUEST_ID.fullmatch(answer.value("x-request-id") or ""):
        yield "no x-request-id"
    if answer.value("cache-control") != "no-store" or answer.value("x-content-type-options") != "nosniff":
        yield "cache-control or x-content-type-options is missing"
    for name in ("location", "server", "access-control-allow-origin", "access-control-allow-credentials"):
        if answer.values(name):
            yield f"the answer has {name}"
    text = answer.body + "\n".join(f"{name}: {value}" for name, value in answer.headers).encode()
    if ENGINE_KEY.encode() in text or _INSIDE.search(answer.body) or b"evil.example" in text:
        yield "the answer tells of the inside, or repeats the caller's host"
    if answer.status >= 400:
        yield from _refusal_faults(seen, answer)


def _refusal_faults(seen: Seen, answer: Answer) -> Iterator[str]:
    """Check what holds for every refusal."""
    error = answer.json["error"]
    if not {"message", "type", "param", "code"} <= error.keys():
        yield "the error has not OpenAI's shape"
    details = f'; details="{answer.code}"'
    status = answer.value("proxy-status") or ""
    if not seen.reached and not (status.startswith("vllm-gateway; error=") and status.endswith(details)):
        yield "no Proxy-Status with the reason"
    if (answer.status == 401) != bool(answer.values("www-authenticate")) and answer.status in {401, 404}:
        yield "a challenge where none belongs, or none where one does"
    if answer.status >= 500:
        yield f"a caller provoked {answer.status}"


def _forwarded_faults(seen: Seen, request: Recorded) -> Iterator[str]:
    """Check what holds for every request that goes to the engine."""
    if (request.method, request.target) != ("POST", CHAT):
        yield f"{request.method} {request.target} reached the engine"
    names = [name for name, _ in request.headers]
    if strange := set(names) - _FORWARDED_FIELDS:
        yield f"fields reached the engine: {sorted(strange)}"
    if len(set(names)) != len(names):
        yield "a field reached the engine twice"
    if request.header("authorization") != [f"Bearer {ENGINE_KEY}"]:
        yield "the engine did not get the gateway's own key"
    if request.header("accept-encoding") != ["identity"] or request.header("content-type") != ["application/json"]:
        yield "accept-encoding or content-type is not the gateway's"
    if request.header("content-length") != [str(len(request.body))]:
        yield "the length is wrong"
    if not request.header("user-agent")[0].startswith("vllm-gateway/"):
        yield "the user agent is not the gateway's"
    if request.header("x-request-id") not in ([], [seen.answer.value("x-request-id")]):
        yield "the caller's request id reached the engine"
    if request.body.count('"messages"') != 1 or request.body.count('"enable_thinking"') != 1:
        yield "a name stands twice in the body"


def _upstream_faults(seen: Seen, expected: str) -> Iterator[str]:
    """Check how many requests reached the engine, and the body of the one that may."""
    refused = all(answer.status >= 400 for answer in seen.answers) and seen.case["id"] not in _REFUSED_BY_THE_ENGINE
    if expected == "none" or expected.startswith("exactly: GET /v1/models") or refused:
        chat_control = seen.attempt.method == "POST" and not refused and expected != "none"
        if seen.reached and not chat_control:
            yield f"reached the engine: {[request.target for request in seen.reached]}"
        if not seen.reached and chat_control:
            yield "did not reach the engine"
        return
    if len(seen.reached) != 1:
        yield f"{len(seen.reached)} requests reached the engine instead of one"
        return
    yield from _body_faults(seen)
    check = _BODIES.get(seen.case["id"])
    if check is not None and not check(seen.sent_body):
        yield f"the engine got another body than: {expected}"


def _body_faults(seen: Seen) -> Iterator[str]:
    """Compare what was sent with what reached the engine: unchanged, but for what the gateway may add and drop."""
    body, sent = seen.sent_body, seen.attempt.body
    if body.get("model") != REAL_MODEL:
        yield "the model is not the one behind the alias"
    wish = (sent.get("chat_template_kwargs") or {}).get("enable_thinking") if isinstance(sent, dict) else None
    if body.get("chat_template_kwargs") != {"enable_thinking": wish is True}:
        yield f"chat_template_kwargs is {body.get('chat_template_kwargs')}"
    if not isinstance(sent, dict):
        return
    kept = {name: value for name, value in sent.items() if name not in _ADDED | _NEVER_SENT}
    if kept != {name: value for name, value in body.items() if name not in _ADDED}:
        yield "the caller's fields were changed"
    if not _SALT.fullmatch(str(body.get("cache_salt"))):
        yield "the engine's cache is not divided"
    caps = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    if not caps or any(type(cap) is not int or not 1 <= cap <= MOST_TOKENS for cap in caps):
        yield f"the answer's length is not bounded: {caps}"


def _reason_faults(seen: Seen, reason: Reason) -> Iterator[str]:
    if seen.answer.code != PUBLIC.get(reason, reason):
        yield f"error.code is {seen.answer.code}, expected {PUBLIC.get(reason, reason)}"
    if (found := seen.site.record(seen.answer)["reason"]) != reason:
        yield f"the record says {found}, expected {reason}"


_BODIES: Mapping[str, Callable[[dict[str, Any]], bool]] = {
    "json-031": lambda body: body.get("max_tokens") == MOST_TOKENS,
    "json-033": lambda body: body.get("max_completion_tokens") == MOST_TOKENS,
    "json-093": lambda body: not _NEVER_SENT & body.keys(),
    "json-062": lambda body: (body["temperature"], body["top_p"]) == (0.1, 1.0),
}


def _always(_: Seen) -> bool:
    """Stand for a demand that ``faults`` checks for every answer and every forwarded request."""
    return True


def _authenticates(*codes: str | None) -> Callable[[Seen], bool]:
    """Check the challenge's error code; ``None`` for a challenge without one."""

    def check(seen: Seen) -> bool:
        challenge = seen.answer.value("www-authenticate") or ""
        found = re.search(r'error="([a-z_]+)"', challenge)
        return challenge.startswith("Bearer") and (found[1] if found else None) in codes

    return check


def _fixed_phrase(seen: Seen) -> bool:
    return bool(seen.answer.json["error"]["message"] == "The credential is not valid.")


def _not_in_log(seen: Seen) -> bool:
    token = re.search(rb"eyJ[\w-]+\.[\w-]+\.[\w-]+", seen.attempt.data)
    return token is not None and token[0] not in seen.site.audit() + seen.site.log().encode()


def _one_record(seen: Seen) -> bool:
    return len(seen.site.records(seen.answer.value("x-request-id") or "")) == 1


def _escaped(seen: Seen) -> bool:
    return seen.site.audit().isascii() and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", seen.site.audit())


def _peer(seen: Seen) -> bool:
    return bool(seen.site.record(seen.answer)["peer"] == "127.0.0.1")


def _allows(method: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.answer.value("allow") == method


def _statuses(*statuses: int) -> Callable[[Seen], bool]:
    return lambda seen: [answer.status for answer in seen.answers] == list(statuses)


def _costs_less_than(seconds: float) -> Callable[[Seen], bool]:
    """Compare processor time, not the time by the clock: this machine may be busy with other tests."""
    return lambda seen: seen.cpu_s < seconds


def _leeway(seen: Seen) -> bool:
    """Find the end of a token's life where the policy puts it, 30 s after ``exp``; a busy machine gets 5 s more."""
    now = int(time.time())
    late = {ago: seen.site.issuer.token(iat=now - 300, exp=now - ago) for ago in (1, 25, 31)}
    status = {ago: seen.site.ask(seen.site.request(MODELS, token=token)).status for ago, token in late.items()}
    return seen.answer.status == 200 and status == {1: 200, 25: 200, 31: 401}


def _no_interim(seen: Seen) -> bool:
    return not seen.answer.interim


def _same_client(seen: Seen) -> bool:
    return bool(seen.site.record(seen.answer)["client"] == "partner")


def _no_file(seen: Seen) -> bool:
    """Look for files of the gateway that have no name any more."""
    return not seen.site.nameless_files()


MUST: Mapping[str, Callable[[Seen], bool]] = {
    "401 when issuer profile is rfc9068": lambda seen: seen.answer.status == 401,
    "Allow: GET (RFC 9110 §15.5.6)": _allows("GET"),
    "Allow: POST": _allows("POST"),
    "Cache-Control: no-store": _always,
    "OpenAI-style JSON error object": _always,
    'WWW-Authenticate: Bearer error="invalid_token" (RFC 6750 §3.1)': _authenticates("invalid_token"),
    "WWW-Authenticate: Bearer without error code (RFC 6750 §3.1)": _authenticates(None),
    "no reason detail beyond a fixed phrase": _fixed_phrase,
    "no 500": _always,
    "no 5xx": _always,
    "no Location header": _always,
    "upstream must record no request at all": _always,
    "canary receives zero requests": _always,  # it is a port that nobody listens on: a fetch would fail with a 5xx
    "canary zero hits": _always,
    "answer within 50 ms": _costs_less_than(0.06),
    "memory growth < 10 MB, answer < 100 ms": _costs_less_than(0.11),
    "< 1 s CPU": _costs_less_than(1.0),
    "matches the configured leeway exactly": _leeway,
    "a null enable_thinking at upstream": _always,
    "upstream still receives headers that the gateway itself sets (e.g. upstream api key, user-agent)": _always,
    "Cookie or Authorization (client token) at upstream": _always,
    "authentication still performed on the original request": _same_client,
    "x-request-id of the answer is always new: 32 hex digits, id replaced": _always,
    "exactly one log record, valid JSON": _one_record,
    "control, bidi and line-separator characters escaped": _escaped,
    "client address in logs/limits = socket peer": _peer,
    "ignored unless the plane has an edge lock whose assertion verified (trust.edge)": _peer,
    "consistent with configuration, never '*' with credentials": _always,
    "resource == configured https identifier (RFC 9728 §3.3)": lambda seen: seen.answer.status == 421,
    "exactly two responses, in order: 200 then 404": _statuses(200, 404),
    "second response 401": _statuses(200, 401),
    "/metrics at upstream": _always,
    "100 Continue": _no_interim,
    "101": _no_interim,
    "101; Upgrade/HTTP2-Settings at upstream": _no_interim,
    "ACAO": _always,
    "Access-Control-Allow-Credentials: true": _always,
    "Access-Control-Allow-Origin echoing this origin": _always,
    "Expect header at upstream": _always,
    "Range / conditional headers at upstream": _always,
    "VLLM_API_KEY in any response, log or error": lambda seen: ENGINE_KEY.encode() not in seen.site.audit(),
    "a second request '/metrics' at upstream; any upstream request before the body is complete and valid": _always,
    "any X-Original-URL / X-Rewrite-URL header at upstream": _always,
    "body bytes at upstream": _always,
    "multipart parser invoked": lambda seen: seen.answer.code == "media-type-not-accepted",
    "temp files created": _no_file,
    "evil.example in any response header, redirect, metadata URL, or upstream header": _always,
    "forwarded to upstream": _always,
    "prefix headers at upstream": _always,
    "reach upstream": _always,
    "token in access log": _not_in_log,
    "trailer fields merged into headers or forwarded": _always,
    "truncated JSON at upstream": _always,
    "tunnel": _always,
    "underscore variants read as identity or forwarded": _same_client,
    "refused without inflating": _costs_less_than(0.2),
    "answered before reading the body": _costs_less_than(0.2),
    "after an early refusal: connection: close, then at most 64 MiB or 5 s are drained, "
    "so that the client reads the answer": lambda seen: seen.answer.closes,
}


def carry_out(attempt: Attempt, case: Case, site: Site, *, trickle: bool = False) -> Seen:
    """Send one attempt and gather what came of it."""
    before = len(site.engine.requests)
    cpu_s = site.cpu()
    with site.connect() as connection:
        connection.send(attempt.data, trickle=trickle)
        answers = [connection.answer(attempt.method) for _ in range(attempt.answers)]
        cpu_s = site.cpu() - cpu_s
        closed = case["expected"].get("connection") == "close" and connection.ended()
    reached = [request for request in site.engine.requests[before:] if not request.own_traffic]
    return Seen(case, attempt, answers, reached, closed, cpu_s, site)
