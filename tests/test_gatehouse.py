"""Who calls, from where, and who failed too often: the lock comes first, and what holds is never delayed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.gatehouse import EACH_ADDRESS, QUESTIONS, REST_OF_PLANE, Gatehouse, Visitor, bounds
from gateway.identity.confirmation import Confirmation
from gateway.identity.dpop import Asked, Proofs
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.identity.principal import CredentialKind, Principal
from gateway.identity.refusal import invalid
from gateway.limits.failures import Bound
from gateway.reasons import Malformed, Reason, Unavailable
from gateway.wire.headers import RequestHeaders
from tests.policy.planes import plane as any_plane
from tests.simulators.prover import Prover
from tests.simulators.signing import compact, signing_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.identity.credential import Credential
    from gateway.identity.issuer import CallerTrust

NOW = 1_796_000_000.0
CORP = AccessTokenIssuer("corp", "https://i", "us", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)
BOUND = replace(CORP, sender="dpop")
MUTUAL = replace(CORP, sender="mtls")
EDGE = CloudflareAccess("edge", "team", "4a" * 32)
ASKED = Asked("GET", "llm.example.com", "/v1/models")
URL = "https://llm.example.com/v1/models"
FEW = (Bound(2, 0.5), Bound(3, 10.0), Bound(1, 0.1))


def token(name: str) -> str:
    return compact(signing_input({"alg": "RS256"}, {"name": name}), b"x")


def principal(kind: CredentialKind = CredentialKind.ACCESS_TOKEN, **changes: Any) -> Principal:  # noqa: ANN401
    return replace(Principal("corp", kind, "cli-1"), **changes)


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.moment = 1000.0

    def now(self) -> float:
        return NOW

    def ticks(self) -> float:
        return self.moment

    def today(self) -> str:
        return "2026-11-30"


class Roll:
    """An authenticator: who a text speaks for; what was verified once is known from then on."""

    def __init__(self, principals: Mapping[str, Principal | Exception], locks: frozenset[str]) -> None:
        self.principals = principals
        self.locks = locks
        self.verified: set[str] = set()
        self.opened: list[str] = []
        self.judged: list[str] = []
        self.known_fields: dict[bytes, Principal] = {}

    def recognize(self, field: bytes, now: float) -> Principal | None:
        return self.known_fields.get(field)

    def known(self, credential: Credential, now: float) -> Principal | None:
        found = self.principals.get(credential.text)
        if credential.assertion is not None and credential.assertion not in self.opened:
            return None
        return found if credential.text in self.verified and isinstance(found, Principal) else None

    async def identify(self, credential: Credential, now: float) -> Principal:
        self.judged.append(credential.text)
        found = self.principals.get(credential.text, invalid("unknown"))
        if isinstance(found, Exception):
            raise found
        self.verified.add(credential.text)
        return found

    async def open_edge(self, assertion: str, now: float) -> None:
        if assertion not in self.locks:
            raise invalid("not our front")
        self.opened.append(assertion)


class House:
    """A gatehouse, and what stands around it."""

    def __init__(
        self,
        *callers: CallerTrust,
        edge: CloudflareAccess | None = None,
        principals: Mapping[str, Principal | Exception] | None = None,
    ) -> None:
        trusted: dict[str, CallerTrust] = {trust.caller: trust for trust in (*callers, ApiKeys("keys"))}
        self.roll = Roll(principals or {token("good"): principal()}, frozenset({"lock"}))
        self.clock = Hands()
        self.proofs = Proofs(b"secret")
        plane = replace(any_plane(), callers=trusted, edge=edge)
        self.gatehouse = Gatehouse(plane, self.roll, self.clock, self.proofs, FEW)

    async def enter(self, text: str, peer: str | None = "192.0.2.1", **fields: Any) -> Visitor:  # noqa: ANN401
        scheme = "DPoP" if "dpop" in fields else "Bearer"
        asked = ASKED._replace(certificate=fields.pop("certificate", None))
        headers = RequestHeaders("llm.example.com", f"{scheme} {text}".encode(), **fields)
        credential = self.gatehouse.read(headers, peer)
        known = self.gatehouse.known(credential, headers, peer)
        return known or await self.gatehouse.enter(credential, headers, peer, asked)

    async def reason(self, text: str, peer: str | None = "192.0.2.1", **fields: Any) -> Reason:  # noqa: ANN401
        return (await self.refusal(text, peer, **fields)).reason

    async def refusal(self, text: str, peer: str | None = "192.0.2.1", **fields: Any) -> Malformed | Unavailable:  # noqa: ANN401
        with pytest.raises((Malformed, Unavailable)) as caught:
            await self.enter(text, peer, **fields)
        error = caught.value
        assert isinstance(error, Malformed | Unavailable)
        return error


INVALID, THROTTLED = Reason.CREDENTIAL_INVALID, Reason.FAILURES_THROTTLED


async def test_a_visitor_is_verified_once_and_comes_from_the_peer() -> None:
    house = House(CORP)
    for _ in range(2):
        visitor = await house.enter(token("good"), cf_connecting_ip="198.51.100.9")
        assert visitor == Visitor(principal(), "192.0.2.1")
    assert house.roll.judged == [token("good")]


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", None])
async def test_a_host_that_everybody_comes_from_is_blamed_for_nothing(peer: str | None) -> None:
    """LIMITS-15: one bound for the plane, and what holds is never delayed, whether it was seen before or not."""
    house = House(CORP, principals={token("good"): principal(), token("new"): principal()})
    assert (await house.enter(token("good"), peer)).address == peer
    assert [await house.reason(token(f"bad {number}"), peer) for number in range(4)] == [INVALID] * 3 + [THROTTLED]
    assert (await house.enter(token("good"), peer)).principal == principal()
    assert (await house.enter(token("new"), peer)).principal == principal()
    house.clock.moment += 0.1
    assert await house.reason(token("bad"), peer) is INVALID


async def test_an_address_that_is_known_is_bounded_by_itself() -> None:
    house = House(CORP)
    assert [await house.reason(token("bad")) for _ in range(3)] == [INVALID, INVALID, THROTTLED]
    refused = await house.refusal(token("bad"))
    assert isinstance(refused, Unavailable)
    assert (refused.retry_after, refused.detail) == (2, "unknown")
    assert await house.reason(token("bad"), "192.0.2.2") is INVALID
    assert await house.reason(token("bad"), "unparsable") is INVALID
    assert (await house.enter(token("good"))).principal == principal()


async def test_a_credential_that_is_not_even_one_counts_too() -> None:
    house = House(CORP)
    reasons = [await house.reason("two words") for _ in range(3)]
    assert reasons == [INVALID, INVALID, THROTTLED]


async def test_what_is_missing_or_cannot_be_checked_is_not_counted() -> None:
    down = Unavailable(Reason.KEYS_UNAVAILABLE, "down")
    house = House(CORP, principals={token("good"): principal(), token("down"): down})
    for _ in range(5):
        assert await house.reason(token("down")) is Reason.KEYS_UNAVAILABLE
        with pytest.raises(Malformed) as caught:
            house.gatehouse.read(RequestHeaders("h"), "192.0.2.1")
        assert caught.value.reason is Reason.CREDENTIAL_MISSING
    assert await house.reason(token("bad")) is INVALID


async def test_behind_the_edge_the_address_is_what_the_front_reports() -> None:
    house = House(CORP, edge=EDGE)
    fields = {"access_assertion": b"lock", "cf_connecting_ip": "198.51.100.9"}
    for _ in range(2):
        assert await house.enter(token("good"), "127.0.0.1", **fields) == Visitor(principal(), "198.51.100.9")
    assert house.roll.judged == [token("good")]
    assert (await house.enter(token("good"), "127.0.0.1", access_assertion=b"lock")).address is None


async def test_an_address_is_believed_only_when_the_lock_is_open() -> None:
    """LIMITS-15, trust-002: failures of the lock are blamed on nobody, those behind it on the address."""
    house = House(CORP, edge=EDGE)
    one = {"access_assertion": b"lock", "cf_connecting_ip": "198.51.100.1"}
    other = {"access_assertion": b"lock", "cf_connecting_ip": "198.51.100.2"}
    forged = {"access_assertion": b"forged", "cf_connecting_ip": "198.51.100.2"}
    assert [await house.reason(token("bad"), "127.0.0.1", **one) for _ in range(3)] == [INVALID, INVALID, THROTTLED]
    assert await house.reason(token("bad"), "127.0.0.1", **other) is INVALID
    house = House(CORP, edge=EDGE)
    reasons = [await house.reason(token("good"), "127.0.0.1", **forged) for _ in range(4)]
    assert reasons == [INVALID, INVALID, INVALID, THROTTLED]
    assert house.roll.judged == [], "without the lock no credential is looked at"
    assert [await house.reason(token("bad"), "127.0.0.1", **other) for _ in range(2)] == [INVALID, INVALID]
    assert await house.reason("two words", "127.0.0.1", **other) is THROTTLED, "its lock was not looked at"


async def test_a_request_without_a_credential_can_open_the_lock_alone() -> None:
    house = House(CORP, edge=EDGE)
    await house.gatehouse.open_edge(b"lock")
    with pytest.raises(Malformed) as caught:
        await house.gatehouse.open_edge(None)
    assert caught.value.reason is Reason.CREDENTIAL_MISSING
    for expected in (INVALID, INVALID, INVALID, THROTTLED):
        with pytest.raises((Malformed, Unavailable)) as failed:
            await house.gatehouse.open_edge(b"\xff")
        assert getattr(failed.value, "reason", None) is expected
    await House(CORP).gatehouse.open_edge(None)


async def test_an_opaque_token_is_not_asked_about_from_where_too_many_failed() -> None:
    """Each of them costs the issuer an answer; one that was seen before costs nothing."""
    asked = IntrospectionIssuer("asked", "https://i", "us")
    seen = principal(CredentialKind.INTROSPECTION)
    house = House(asked, CORP, principals={"seen": seen, "new": seen, token("good"): principal()})
    await house.enter("seen", None)
    assert await house.reason("bad-1", None) is INVALID
    refused = await house.refusal("new", None)
    assert isinstance(refused, Unavailable)
    assert (refused.reason, refused.retry_after) == (THROTTLED, 10)
    assert house.roll.judged == ["seen", "bad-1"]
    assert (await house.enter("seen", None)).principal == seen
    assert (await house.enter(token("good"), None)).principal == principal()
    assert await house.reason("bad-2") is INVALID, "an address that is known has its own bound"
    house.clock.moment += 10
    assert (await house.enter("new", None)).principal == seen


def proof(house: House, prover: Prover, text: str, **changes: Any) -> bytes:  # noqa: ANN401
    good = {"nonce": house.proofs.nonces.current(NOW), "iat": NOW}
    return prover.proof(text, "GET", URL, **{**good, **changes}).encode()


async def test_a_bound_token_is_good_with_a_proof_of_its_own_key_and_once() -> None:
    prover, other = Prover(), Prover("other")
    bound = principal(bound_to=Confirmation("dpop", prover.thumbprint))
    house = House(BOUND, principals={token("bound"): bound, token("free"): principal()})
    good = proof(house, prover, token("bound"))
    assert (await house.enter(token("bound"), dpop=good)).principal == bound
    assert (await house.refusal(token("bound"), None, dpop=good)).detail == "the proof was used before"
    assert (await house.enter(token("bound"), dpop=proof(house, prover, token("bound")))).principal == bound
    assert house.roll.judged == [token("bound")], "the token itself is verified once"
    assert "without proof" in (await house.refusal(token("bound"), None)).detail
    wrong = proof(house, other, token("bound"))
    assert "not bound to the key" in (await house.refusal(token("bound"), None, dpop=wrong)).detail


async def test_a_token_that_is_bound_to_nothing_gains_nothing_by_a_proof() -> None:
    house = House(BOUND, principals={token("free"): principal()})
    sent = proof(house, Prover(), token("free"))
    assert "not bound to the key" in (await house.refusal(token("free"), dpop=sent)).detail


async def test_a_proof_without_our_nonce_is_asked_for_again_and_never_counted() -> None:
    """And before anything is said about the token (RFC 9449 §9)."""
    house = House(BOUND)
    for _ in range(5):
        refused = await house.refusal(token("good"), dpop=proof(house, Prover(), token("good"), nonce=None))
        assert isinstance(refused, Malformed)
        assert (refused.reason, refused.code) == (INVALID, "use_dpop_nonce")
    assert house.roll.judged == []
    assert house.gatehouse.takes_proofs
    assert house.gatehouse.nonce() == house.proofs.nonces.current(NOW)


async def test_a_token_for_a_certificate_is_good_on_its_connections_alone() -> None:
    """RFC 8705 §3: each request is held against the certificate, also of a token that was verified before."""
    bound = principal(bound_to=Confirmation("mtls", "ours"))
    house = House(MUTUAL, principals={token("bound"): bound})
    for _ in range(2):
        assert (await house.enter(token("bound"), certificate="ours")).principal == bound
        another = await house.refusal(token("bound"), None, certificate="theirs")
        assert another.detail.endswith(", and this connection has another")
        assert (await house.refusal(token("bound"), None)).detail.endswith(", and this connection has none")
    assert await House(MUTUAL, principals={token("bound"): bound}).reason(token("bound")) is INVALID
    assert house.roll.judged == [token("bound")], "the token itself is verified once"
    assert not house.gatehouse.takes_proofs


async def test_a_proof_does_not_stand_in_for_a_certificate_nor_the_other_way_round() -> None:
    prover = Prover()
    other = replace(BOUND, caller="other", issuer="https://other")
    names = {"mtls": Confirmation("mtls", prover.thumbprint), "dpop": Confirmation("dpop", prover.thumbprint)}
    house = House(MUTUAL, other, principals={token(name): principal(bound_to=bound) for name, bound in names.items()})
    sent = proof(house, prover, token("mtls"))
    refused = await house.refusal(token("mtls"), None, dpop=sent, certificate=prover.thumbprint)
    assert "not bound to the key" in refused.detail
    assert "without proof" in (await house.refusal(token("dpop"), None, certificate=prover.thumbprint)).detail
    unbound = House(CORP)
    assert (await unbound.enter(token("good"), certificate="any")).principal == principal()


def test_a_plane_without_bound_tokens_gives_no_nonce() -> None:
    gatehouse = House(CORP).gatehouse
    assert not gatehouse.takes_proofs
    assert gatehouse.nonce() is None


def test_several_processes_together_let_no_more_credentials_fail_than_one() -> None:
    assert bounds(1) == (EACH_ADDRESS, REST_OF_PLANE, QUESTIONS)
    for processes in (2, 4, 7):
        for whole, share in zip(bounds(1), bounds(processes), strict=True):
            assert share.burst * processes <= whole.burst
            assert share.per_second * processes == pytest.approx(whole.per_second)
    assert [one.burst for one in bounds(200)] == [1, 10, 1], "nobody is told to wait for ever"


async def test_a_field_that_is_recognized_names_its_visitor() -> None:
    house = House(CORP)
    house.roll.known_fields[b"hash"] = principal()
    assert house.gatehouse.known_fields is house.roll.known_fields
    assert house.gatehouse.recognized(b"hash", "192.0.2.1", NOW) == Visitor(principal(), "192.0.2.1")
    assert house.gatehouse.recognized(b"other", "192.0.2.1", NOW) is None


async def test_a_token_that_is_bound_to_a_key_and_one_behind_an_edge_are_recognized_by_nothing_alone() -> None:
    bound = House(BOUND)
    bound.roll.known_fields[b"hash"] = principal(bound_to=Confirmation("dpop", "key"))
    assert bound.gatehouse.recognized(b"hash", "192.0.2.1", NOW) is None
    behind = House(CORP, edge=EDGE)
    behind.roll.known_fields[b"hash"] = principal()
    assert b"hash" not in behind.gatehouse.known_fields
