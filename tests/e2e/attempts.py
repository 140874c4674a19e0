"""Cases of the corpus as bytes on the wire.

Enters: a case and the site it is sent to. Leaves: ``Attempt`` values, one or more for each case: each variant that its
title lists, and beside a ``GET`` that the gateway answers by itself the same header fields with a chat, which would
reach the engine.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from tests.e2e.site import BODY_LIMIT, CHAT, HI, KEYS, MODELS
from tests.simulators.hostile_tokens import credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.site import Site

Case = dict[str, Any]

_HEAD_END = b"\r\n\r\n"
_CONTENT_LENGTH = re.compile(rb"(?<=\r\nContent-Length: )[0-9]+")
_BLANK_CANARY = "127.0.0.1:9"
_TEN_THOUSAND = "/* 10,000 tools */"
_TOOLS = ",".join(f'{{"type":"function","function":{{"name":"f{number}"}}}}' for number in range(10_000))
_RECOMPUTED = {"framing-033", "header-018"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Bytes to send, how many answers to read, and what was meant: ``body`` is the JSON that was sent, if any."""

    data: bytes
    answers: int = 1
    body: Any = None
    unread: bool = False

    @property
    def method(self) -> str:
        """The method of the first request."""
        return self.data.lstrip(b"\r\n").partition(b" ")[0].decode("latin-1")


def attempts(case: Case, site: Site) -> list[Attempt]:
    """Give what to send for a case of any kind but ``scenario``."""
    kind = case["input"]["kind"]
    return {"raw_http": _raw, "http": _form, "json": _json, "jwt": _jwt, "introspection": _opaque}[kind](case, site)


def _raw(case: Case, site: Site) -> list[Attempt]:
    data = case["input"]["raw"].encode("latin-1")
    for name, value in _placeholders(site).items():
        data = data.replace(b"{{%b}}" % name.encode(), value.encode())
    if case["id"] in _RECOMPUTED:
        head, _, body = data.partition(_HEAD_END)
        data = _CONTENT_LENGTH.sub(str(len(body)).encode(), head) + _HEAD_END + body
    answers = {"framing-034": 2, "framing-035": 2}.get(case["id"], 1)
    sent = [Attempt(data, answers, HI if b'"messages"' in data else None)]
    if "send the same header fields with POST" in case.get("note", ""):
        sent.append(_as_chat(data))
    return sent


def _as_chat(data: bytes) -> Attempt:
    """Send the header fields of a ``GET`` with a chat."""
    lines = data.removesuffix(_HEAD_END).split(b"\r\n")
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    own = [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return Attempt(b"\r\n".join([b"POST %b HTTP/1.1" % CHAT.encode(), *lines[1:], *own]) + _HEAD_END + body, body=HI)


def _placeholders(site: Site) -> Mapping[str, str]:
    token = site.issuer.token()
    return {
        "HOST": site.host,
        "TOKEN": token,
        "TOKEN_EXPIRED": site.issuer.token(iat=1, exp=2),
        "TOKEN_OTHER": site.issuer.token(sub="user-2"),
        "CF_TOKEN": site.issuer.token(key="ATT", sub="cf-token"),
        "CF_TOKEN_OTHER_USER": site.issuer.token(key="ATT", sub="cf-token-of-another"),
        "CANARY": _BLANK_CANARY,
        "TOK7": token[:7],
    }


def _json(case: Case, site: Site) -> list[Attempt]:
    given = case["input"]
    fields = {name.partition("#")[0].encode(): value.encode() for name, value in given["headers"].items()}
    body = _body(given)
    transform = given.get("transform", "")
    length = len(body)
    if transform == "gzip(body)":
        body = gzip.compress(body)
        length = len(body)
    elif transform:
        body, length = gzip.compress(bytes(64 * 1024 * 1024))[: 1024 * 1024], 10 * 1024 * 1024
    lines = [b"%b %b HTTP/1.1" % (given["method"].encode(), given["target"].encode()), b"Host: " + site.host.encode()]
    lines.append(b"Authorization: Bearer " + site.issuer.token().encode())
    types = [given["content_type"]] if given["content_type"] else []
    if case["id"] == "json-081":
        types = ["application/vnd.api+json", "application/json-seq", "APPLICATION/JSON"]
    bodies = [body]
    if case["id"] == "json-075":
        bodies = [b'"x"', b"5", b"null", b"true"]
    if case["id"] == "json-058":
        bodies = [body, body.replace(b"NaN", b"Infinity"), body.replace(b"NaN", b"-Infinity")]
    sent = []
    for one in bodies:
        for media_type in types or [None]:
            head = [*lines]
            if media_type:
                head.append(b"Content-Type: " + media_type.encode())
            head += [b"%b: %b" % pair for pair in fields.items()]
            head.append(b"Content-Length: %d" % (length if one is body else len(one)))
            parsed = None if transform else _parsed(one)
            sent.append(Attempt(b"\r\n".join(head) + _HEAD_END + one, body=parsed, unread=len(one) > BODY_LIMIT))
    return sent


# The corpus says in words what these bodies are.
_FORMS = {
    "multipart-002": b"x" * 5_000_000 + b"--b--",
    "multipart-004": b"x",
    "multipart-005": b"a;" * 1_000_000,
    "multipart-006": b"--b--",
}


def _form(case: Case, site: Site) -> list[Attempt]:
    given, body = case["input"], _FORMS[case["id"]]
    types = [given["headers"]["Content-Type"]]
    if case["id"] == "multipart-006":
        types.append("multipart/related; boundary=b")
    return [
        Attempt(
            site.request(given["target"], given["method"], body=body, fields={"Content-Type": media_type}),
            unread=len(body) > BODY_LIMIT,
        )
        for media_type in types
    ]


def _parsed(body: bytes) -> Any:  # noqa: ANN401  (a JSON value)
    """Give what a strict reader takes a body for; ``None`` if it is not JSON."""
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _body(given: Mapping[str, Any]) -> bytes:
    if given.get("body") is not None:
        return str(given["body"]).replace(_TEN_THOUSAND, _TOOLS).encode("latin-1")
    parts = []
    for segment in given.get("segments", ()):
        match segment:
            case ["lit", text]:
                parts.append(text)
            case ["rep", text, "MAX_BODY+1"]:
                parts.append(text * (BODY_LIMIT + 1))
            case ["rep", text, times]:
                parts.append(text * times)
            case ["repn", text, times]:
                parts += [text % n for n in range(times)]
    return "".join(parts).encode("latin-1")


def _jwt(case: Case, site: Site) -> list[Attempt]:
    claims = dict(case["input"]["claims"])
    if case["id"].startswith("log-"):
        claims = {**site.issuer.claims(), **claims}
    if case["id"] == "jwt-046":
        claims["iat"] = "now-300"  # a token that ends before it begins is no late token
    given = {"header": {"alg": "RS256", "kid": "k1", "typ": "at+jwt"}, **case["input"], "claims": claims}
    sent = []
    for token in credentials({**case, "input": given}, site.issuer.stage):
        field = token.encode("latin-1", "replace")
        head = b"Host: %b\r\nAuthorization: Bearer %b\r\n\r\n" % (site.host.encode(), field)
        get = b"GET %b HTTP/1.1\r\n%b" % (MODELS.encode(), head)
        sent += [Attempt(get), _as_chat(get)]
    return sent


_OPAQUE = {
    "introspection-020": ["ak_live_ab", "ak_live_abcde", "ak_live_", "ak_live_abc."],
    "introspection-021": ["ak_live_abc%0a", "AK_LIVE_ABC", "%61k_live_abc", "ak_live_\u0430bc"],
    "introspection-022": [KEYS["KEY-FORMER"], KEYS["KEY-BARRED"], "opaque-abc"],
}


def _opaque(case: Case, site: Site) -> list[Attempt]:
    lines = "GET {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n"
    return [Attempt(lines.format(MODELS, site.host, key).encode()) for key in _OPAQUE[case["id"]]]
