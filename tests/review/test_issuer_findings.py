from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess
from gateway.identity.key_set import KeySet
from gateway.inquiry import Reply
from gateway.reasons import Reason, Unavailable
from gateway.review.diagnosis import Verdict
from gateway.review.issuer_findings import clock, introspected, keys, no_introspection, subject_of, unavailable
from tests.review.patients import DATE, NOW
from tests.simulators.signing import default_keys

CORP = AccessTokenIssuer("corp", "https://login.example", "aud", frozenset({"RS256"}), "at+jwt", 30, "client_id", 3600)
ACCESS = CloudflareAccess("edge", "example", "aud")
SUBJECT = subject_of("corp", CORP.issuer)
DOWN = Unavailable(Reason.KEYS_UNAVAILABLE, "the issuer did not answer within 5 s")


def key_set(*names: str, more: tuple[object, ...] = ()) -> KeySet:
    public = [default_keys("a")[name].public for name in names]
    return KeySet.parse(orjson.dumps({"keys": [*public, *more]}))


def test_an_issuer_that_is_away_is_told_with_its_settings() -> None:
    found = unavailable(SUBJECT, "GATEWAY_ISSUERS__CORP", DOWN)
    assert (found.verdict, found.saw) == (Verdict.BROKEN, DOWN.detail)
    assert "GATEWAY_ISSUERS__CORP__JWKS_URL" in found.do
    found = no_introspection(SUBJECT, "GATEWAY_ISSUERS__CORP", DOWN)
    assert (found.verdict, found.saw) == (Verdict.BROKEN, DOWN.detail)
    assert "GATEWAY_ISSUERS__CORP__CLIENT_ID" in found.do


def test_keys_that_fit_are_counted() -> None:
    (found,) = keys(SUBJECT, CORP, key_set("K1", "E1"))
    assert (found.verdict, found.subject) == (Verdict.OK, "corp at https://login.example")
    assert found.saw.startswith("1 key for ")
    both = replace(CORP, algorithms=frozenset({"RS256", "ES256"}))
    assert next(keys(SUBJECT, both, key_set("K1", "E1"))).saw.startswith("2 keys for ")


def test_keys_for_other_algorithms_than_the_policys_are_no_keys() -> None:
    (found,) = keys(SUBJECT, CORP, key_set("E1"))
    assert found.verdict is Verdict.BROKEN
    assert "the policy accepts RS256" in found.saw
    assert "trust.callers.corp.access_token.algorithms" in found.do


def test_access_signs_with_rsa() -> None:
    assert next(keys(SUBJECT, ACCESS, key_set("K1"))).verdict is Verdict.OK
    assert next(keys(SUBJECT, ACCESS, key_set("E1"))).verdict is Verdict.BROKEN


def test_a_private_key_that_is_published_is_told_and_other_unfit_keys_are_not() -> None:
    private = {**default_keys("a")["K1"].public, "kid": "leaked", "d": "AQAB"}
    _, found = keys(SUBJECT, CORP, key_set("K1", more=(private, {"kty": "oct", "k": "AQAB"})))
    assert found.verdict is Verdict.WARNING
    assert "private key" in found.saw


@pytest.mark.parametrize(
    "answer, verdict",
    [
        (b'{"active": false}', Verdict.OK),
        (b'{"active": true}', Verdict.BROKEN),
        (b'{"active": "false"}', Verdict.BROKEN),
        (b"<html>", Verdict.BROKEN),
    ],
)
def test_a_token_that_does_not_exist_is_not_active(answer: bytes, verdict: Verdict) -> None:
    assert introspected(SUBJECT, "GATEWAY_ISSUERS__CORP", answer).verdict is verdict


@pytest.mark.parametrize(
    "ahead_s, verdict, saw",
    [
        (0, None, ""),
        (15, None, ""),
        (-15, None, ""),
        (-20, Verdict.WARNING, "this host's clock is 20 s behind the issuer's"),
        (-31, Verdict.BROKEN, "31 s behind the issuer's, and 30 s are forgiven: new tokens are refused"),
        (300, Verdict.WARNING, "300 s ahead of the issuer's"),
    ],
)
@pytest.mark.parametrize("trust", [CORP, ACCESS])
def test_clocks_that_differ_are_told(
    trust: AccessTokenIssuer | CloudflareAccess, ahead_s: int, verdict: Verdict | None, saw: str
) -> None:
    found = list(clock(SUBJECT, trust, Reply(200, {"date": DATE}), NOW + ahead_s))
    assert [one.verdict for one in found] == ([] if verdict is None else [verdict])
    assert all(saw in one.saw for one in found)


@pytest.mark.parametrize("fields", [{}, {"date": "yesterday"}])
def test_an_answer_without_a_date_tells_no_time(fields: dict[str, str]) -> None:
    assert list(clock(SUBJECT, CORP, Reply(200, fields), NOW)) == []
