"""The tokens of the corpus, made with real keys.

Enters: a case of ``tests/corpus/attacks.json`` (group jwt), an issuer's keys, audience and time. Leaves: the
credential texts to send, one or more for each case. Names in the corpus (``K1``, ``ATT``) are names of keys in
``signing.default_keys``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulators.signing import SigningKey, compact, hmac_sha256, part, signing_input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Make = Callable[[dict[str, Any], dict[str, Any], "Stage"], list[str]]

_MOMENT = re.compile(r"now([+-]\d+)?")
_REPEAT = re.compile(r"(.)\*(\d+)")


@dataclass(frozen=True)
class Stage:
    """Who issues, for whom, when: what the placeholders of the corpus stand for."""

    issuer: str
    audience: str
    keys: Mapping[str, SigningKey]
    now: int
    leeway: int = 30
    other_issuer: str = "https://other.example"
    canary: str = "127.0.0.1:9"

    def fill(self, value: Any) -> Any:  # noqa: ANN401  (any JSON value)
        """Write out the placeholders in a value of the corpus."""
        if isinstance(value, dict):
            return {name: self.fill(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.fill(member) for member in value]
        if not isinstance(value, str):
            return value
        if value == "{{ATTACKER_JWK}}":
            return self.keys["ATT"].public
        if value == '"<now+300 as string>"':
            return str(self.now + 300)
        moment = _MOMENT.fullmatch(value.replace("LEEWAY+60", str(self.leeway + 60)))
        if moment:
            return self.now + int(moment[1] or 0)
        repeat = _REPEAT.fullmatch(value)
        if repeat:
            return repeat[1] * int(repeat[2])
        names = {"ISS": self.issuer, "ISS_B": self.other_issuer, "AUD": self.audience, "CANARY": self.canary}
        return re.sub(r"{{(\w+)}}", lambda match: names.get(match[1], match[0]), value)


def credentials(case: Mapping[str, Any], stage: Stage) -> list[str]:
    """Give the credential texts of one case."""
    given = case["input"]
    header = {name: value for name, value in stage.fill(given["header"]).items() if value is not None}
    claims = stage.fill(given["claims"])
    made = _SPECIAL.get(case["id"])
    if made is not None:
        return made(header, claims, stage)
    if given.get("raw_token"):
        return [given["raw_token"]]
    return [_signed(given["sign"], header, claims, stage)]


def _signed(sign: str, header: Mapping[str, Any], claims: Mapping[str, Any] | bytes, stage: Stage) -> str:
    """Sign as the corpus says it in words."""
    message = signing_input(header, claims)
    k1 = stage.keys["K1"]
    secrets = {
        "HMAC-SHA256(secret=PEM SubjectPublicKeyInfo of K1)": k1.pem,
        "HMAC-SHA256(secret=JSON text of K1 public JWK, as served)": json.dumps(k1.public).encode(),
        "HMAC-SHA256(secret=DER SPKI of K1)": k1.der,
        "HMAC-SHA256(secret=b'')": b"",
        "HS256 secret=b''": b"",
    }
    if sign in secrets:
        return compact(message, hmac_sha256(secrets[sign], message))
    fixed = {"empty signature": b"", "64 zero bytes": bytes(64)}
    if sign in fixed:
        return compact(message, fixed[sign])
    if sign == "KPS (JWK alg=PS256) signed RS256":
        return compact(message, stage.keys["KPS"].sign(message, "RS256"))
    name = {"K1 RS256 signature over this header": "K1", "B key with kid k1": "B1"}.get(sign, sign)
    return compact(message, stage.keys[name].sign(message))


def _payloads(*payloads: str) -> Make:
    """Sign raw payloads with K1; ``CLAIMS`` in one stands for the good claims without their outer braces."""

    def make(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
        inner = json.dumps(claims)[1:-1]
        texts = [stage.fill(text.replace("CLAIMS", inner)) for text in payloads]
        return [_signed("K1", header, text.encode(), stage) for text in texts]

    return make


def _nested(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
    inner = compact(signing_input({"alg": "none"}, claims), b"")
    return [_signed("K1", header, inner.encode(), stage), _signed("K1", header, claims, stage)]


def _headers(*headers: bytes) -> Make:
    """Sign raw headers with K1."""

    def make(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
        messages = [signing_input(raw, claims) for raw in headers]
        return [compact(message, stage.keys["K1"].sign(message)) for message in messages]

    return make


def _variants(change: str, values: Sequence[Any]) -> Make:
    """Sign one token for each value of a member (``header.typ``, ``claims.sub``); ``None`` leaves the member out."""
    where, name = change.split(".")

    def make(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
        tokens = []
        for value in values:
            both = {"header": dict(header), "claims": dict(claims)}
            both[where].pop(name, None)
            if value is not None:
                both[where][name] = stage.fill(value)
            tokens.append(_signed("K1", both["header"], both["claims"], stage))
        return tokens

    return make


def _padded(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
    good = _signed("K1", header, claims, stage)
    return [f"{good}==", f"{good}=", good.replace(".", "=.", 1), good.replace(".", "==.")]


def _blanks(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
    good = _signed("K1", header, claims, stage)
    return [f"{good[:40]}{blank}{good[40:]}" for blank in (" ", "\t", "%20", "\x00", "+", "/")]


def _other_counts(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
    good = _signed("K1", header, claims, stage)
    first, second, third = good.split(".")
    counts = [f"{good}.{third}", f"{good}.", f"{first}.{second}", f".{second}.{third}", f"{first}..{third}", first]
    return ["....", "..", ".", *counts]


def _long(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
    return [_signed("K1", header, {**claims, "padding": "x" * 1_000_000}, stage)]


def _spliced(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
    one = _signed("K1", header, claims, stage)
    two = _signed("K1", header, {**claims, "sub": "user-2"}, stage)
    return [f"{one.rpartition('.')[0]}.{two.rpartition('.')[2]}"]


def _encrypted(header: dict[str, Any], claims: dict[str, Any], stage: Stage) -> list[str]:
    """Give the five parts of a JWE (RFC 7516 §7.1), and three under the same header."""
    message = signing_input(header, claims).decode()
    return [f"{message}.{part(bytes(12))}.{part(bytes(64))}.{part(bytes(16))}", f"{message}.{part(bytes(64))}"]


_SPECIAL: Mapping[str, Make] = {
    "jwt-020": _variants("header.alg", [None, 5, ["RS256"], ""]),
    "jwt-039": _nested,
    "jwt-041": _encrypted,
    "jwt-042": _encrypted,
    "jwt-048": _variants("claims.exp", ["99999999999", True, [1], {}]),
    "jwt-049": _payloads('{CLAIMS, "exp": NaN}', '{"exp": NaN}', '{"exp": Infinity}', '{CLAIMS, "x": 1e999}'),
    "jwt-066": _variants("claims.aud", ["{{AUD}}.evil", "gateway", ["x", 5], {}, []]),
    "jwt-071": _variants("header.typ", ["logout+jwt", "dpop+jwt", "secevent+jwt", "at+jwt;x", "/at+jwt"]),
    "jwt-072": _variants("header.typ", [None, ""]),
    "jwt-077": _payloads('{"aud": "https://other.test", CLAIMS}', '{CLAIMS, "x": {"a": 1, "a": 2}}'),
    "jwt-078": _headers(
        b'{"alg":"none","alg":"RS256","kid":"k1","typ":"at+jwt"}',
        b'\xef\xbb\xbf{"alg":"RS256","kid":"k1","typ":"at+jwt"}',
        b'{"alg":"RS256","kid":"k1","typ":"at+jwt"} x',
        b'[{"alg":"RS256"}]',
    ),
    "jwt-080": _payloads("[1]", '"text"', "5", "null", "", "{CLAIMS", "\ufeff{CLAIMS}", "{CLAIMS} {}"),
    "jwt-083": _padded,
    "jwt-086": _blanks,
    "jwt-087": _other_counts,
    "jwt-088": _long,
    "jwt-090": _spliced,
    "jwt-095": _variants("claims.sub", [None, "", 5, "a\r\nb", "x" * 256]),
}
