"""Room 3 as far as the policy is not asked: who calls, from where, and who failed too often to say it.

Enters: the credential fields of a request, its peer, what it asks for. Leaves: a ``Visitor``, or ``Malformed`` and
``Unavailable`` as the verifiers raise them. The lock of the edge comes first: until it is open, nobody knows whether
the address that a front reports is true. It admits nobody: that is ``policy.decide.admit``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from gateway.identity import dpop
from gateway.identity.confirmation import DPOP
from gateway.identity.credential import CredentialReader, takes_proofs
from gateway.identity.principal import CredentialKind
from gateway.identity.refusal import invalid
from gateway.limits.failures import Bound, Failures
from gateway.reasons import Malformed, Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import Container

    from gateway.identity.credential import Credential
    from gateway.identity.principal import Principal
    from gateway.policy.model import Plane
    from gateway.ports import Authenticator, Clock
    from gateway.wire.headers import RequestHeaders

EACH_ADDRESS = Bound(30, 0.5)
REST_OF_PLANE = Bound(2000, 200.0)
QUESTIONS = Bound(100, 10.0)
"""How many opaque tokens may fail without an address to blame: each of them costs the issuer an answer."""


def bounds(processes: int) -> tuple[Bound, Bound, Bound]:
    """Give the share that each of several processes has of these bounds."""
    each, rest, questions = (
        Bound(max(1, bound.burst // processes), bound.per_second / processes)
        for bound in (EACH_ADDRESS, REST_OF_PLANE, QUESTIONS)
    )
    return each, rest, questions


@dataclass(slots=True)
class Visitor:
    """A verified caller and the address that it comes from; ``None`` if that is not known.

    (Not frozen, and no tuple: what each request makes and reads some times is cheapest so.)
    """

    principal: Principal
    address: str | None


class Gatehouse:
    """The gatehouse of one plane. ``proofs`` is the memory of the process for proofs of possession."""

    def __init__(
        self,
        plane: Plane,
        authenticator: Authenticator,
        clock: Clock,
        proofs: dpop.Proofs,
        shares: tuple[Bound, Bound, Bound],
    ) -> None:
        keys = {key.sha256: client.caller for client in plane.clients.values() for key in client.keys}
        self._edge = plane.edge is not None
        self._reader = CredentialReader(plane.callers, keys, edge=self._edge)
        self._authenticator = authenticator
        self._clock = clock
        self._proofs = proofs
        each, rest, questions = shares
        self._failures = Failures(each, rest)
        self._questions = Failures(each, questions)
        self.takes_proofs = takes_proofs(plane.callers.values())
        self.known_fields: Container[bytes] = () if self._edge else authenticator.known_fields

    def recognized(self, field: bytes, peer: str | None, now: float) -> Visitor | None:
        """Tell who it is by the SHA-256 of a field in ``known_fields``, the only credential of a request of now.

        ``None``: whoever reads the credential finds out, as where the proof has expired or is bound to a key.
        """
        principal = self._authenticator.recognize(field, now)
        if principal is None or principal.bound_to is not None:
            return None
        return Visitor(principal, peer)

    def read(self, headers: RequestHeaders, peer: str | None) -> Credential:
        """Find the one credential. Raises ``Malformed`` with one of the three credential reasons, ``Unavailable``."""
        try:
            return self._reader.read(headers)
        except Malformed as refusal:
            raise self._counted(refusal, self._failures, None if self._edge else _place(peer)) from None

    def known(self, credential: Credential, headers: RequestHeaders, peer: str | None) -> Visitor | None:
        """Tell who it is where nobody and nothing has to be asked again; ``None``: ``enter`` finds out."""
        principal = self._authenticator.known(credential, self._clock.now())
        if principal is None or principal.bound_to is not None or credential.proof is not None:
            return None
        return Visitor(principal, headers.cf_connecting_ip if self._edge else peer)

    async def enter(
        self, credential: Credential, headers: RequestHeaders, peer: str | None, asked: dpop.Asked
    ) -> Visitor:
        """Find out who it is.

        Raises ``Malformed(CREDENTIAL_INVALID)``, ``Unavailable(KEYS_UNAVAILABLE)`` and
        ``Unavailable(FAILURES_THROTTLED)``.
        """
        address = headers.cf_connecting_ip if self._edge else peer
        return Visitor(await self._identified(credential, address, asked, self._clock.now()), address)

    async def open_edge(self, assertion: bytes | None) -> None:
        """Open the lock of the edge, where there is one, for a request without a credential of its own."""
        if not self._edge:
            return
        if not assertion:
            raise Malformed(Reason.CREDENTIAL_MISSING, "the edge's assertion is missing")
        try:
            await self._authenticator.open_edge(assertion.decode("ascii", "replace"), self._clock.now())
        except Malformed as refusal:
            raise self._counted(refusal, self._failures, None) from None

    def nonce(self) -> str | None:
        """Give the nonce for the next proof, on a plane that takes proofs (RFC 9449 §8.2)."""
        return self._proofs.nonces.current(self._clock.now()) if self.takes_proofs else None

    async def _identified(
        self, credential: Credential, address: str | None, asked: dpop.Asked, now: float
    ) -> Principal:
        """Verify lock, proof and credential, and count what fails where it came from."""
        place, failures = None, self._failures
        try:
            if credential.assertion is not None:
                await self._authenticator.open_edge(credential.assertion, now)
            place = address if self._edge else _place(address)
            if credential.kind is CredentialKind.INTROSPECTION:
                failures = self._questions
                self._hold_back(failures, place)
            proof = self._proof(credential, asked, now)
            principal = self._authenticator.known(credential, now)
            if principal is None:
                principal = await self._authenticator.identify(credential, now)
            self._check_binding(principal, proof, asked.certificate, now)
        except Malformed as refusal:
            raise self._counted(refusal, failures, place) from None
        return principal

    def _proof(self, credential: Credential, asked: dpop.Asked, now: float) -> dpop.Proof | None:
        """Verify the proof first, so that whoever is asked for a nonce learns nothing about the token."""
        if credential.proof is None:
            return None
        try:
            return dpop.read(credential.proof, credential.text, asked, now, self._proofs.nonces)
        except dpop.NonceWanted:
            raise Malformed(Reason.CREDENTIAL_INVALID, "the proof has not our nonce", code=dpop.NONCE_WANTED) from None

    def _check_binding(
        self, principal: Principal, proof: dpop.Proof | None, certificate: str | None, now: float
    ) -> None:
        """Compare the token's key or certificate with the one that is shown; neither is anything without the other."""
        bound = principal.bound_to
        if proof is not None:
            if bound is None or bound.sender != DPOP or not bound.fits(proof.key):
                raise invalid("the token is not bound to the key of the proof")
            self._proofs.seen.use(proof, now)
        elif bound is not None and bound.sender == DPOP:
            raise invalid("the token came without proof")
        elif bound is not None and not bound.fits(certificate):
            shown = "this connection has another" if certificate else "this connection has none"
            raise invalid(f"the token is bound to a certificate (cnf.x5t#S256), and {shown}")

    def _hold_back(self, failures: Failures, place: str | None) -> None:
        """Ask nobody about a token from where too many failed."""
        wait_s = failures.wait_s(place, self._clock.ticks())
        if wait_s:
            raise _throttled("not asked about", wait_s)

    def _counted(self, refusal: Malformed, failures: Failures, place: str | None) -> Malformed | Unavailable:
        """Count a credential that does not hold; give the refusal, or another if it is one too many."""
        if refusal.reason is not Reason.CREDENTIAL_INVALID or refusal.code:
            return refusal
        wait_s = failures.fail(place, self._clock.ticks())
        return _throttled(refusal.detail, wait_s) if wait_s else refusal


def _throttled(detail: str, wait_s: float) -> Unavailable:
    return Unavailable(Reason.FAILURES_THROTTLED, detail, retry_after=max(1, math.ceil(wait_s)))


def _place(peer: str | None) -> str | None:
    """Give the peer that failures can be blamed on: behind a tunnel everybody comes from this very host."""
    if peer is None:
        return None
    try:
        return None if ip_address(peer).is_loopback else peer
    except ValueError:
        return peer
