"""The parties that may vouch for a caller, as the policy states them; nothing here is fetched or decided.

Leaves: one frozen type for each kind under ``trust.callers`` and ``trust.edge``. Durations are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.identity.principal import CredentialKind


@dataclass(frozen=True, slots=True)
class AccessTokenIssuer:
    """An OAuth issuer of signed access tokens (RFC 9068).

    ``token_type`` is the exact ``typ`` of the token's header: ``at+jwt`` (which also matches ``application/at+jwt``,
    RFC 9068 §4), ``JWT``, or ``absent`` for a header without one. ``groups_claim`` is a path of member names.
    ``sender``: what each request must show besides: ``dpop``, a proof (RFC 9449), ``mtls``, the certificate of its
    connection (RFC 8705), or nothing.
    """

    caller: str
    issuer: str
    audience: str
    algorithms: frozenset[str]
    token_type: str
    clock_skew_s: int
    client_claim: str
    longest_lifetime_s: int
    groups_claim: tuple[str, ...] | None = None
    scopes_claim: str = "scope"
    sender: str | None = None
    kind = CredentialKind.ACCESS_TOKEN


@dataclass(frozen=True, slots=True)
class IntrospectionIssuer:
    """An issuer that is asked about opaque tokens (RFC 7662)."""

    caller: str
    issuer: str
    audience: str
    groups_claim: tuple[str, ...] | None = None
    kind = CredentialKind.INTROSPECTION


@dataclass(frozen=True, slots=True)
class CloudflareAccess:
    """A Cloudflare Access application: its team and the audience tag that alone tells applications of a team apart."""

    caller: str
    team: str
    audience: str
    groups_claim: tuple[str, ...] | None = None
    scopes_claim = None  # Access identities bear no scopes
    kind = CredentialKind.CLOUDFLARE_ACCESS

    @property
    def issuer(self) -> str:
        """The exact ``iss`` of assertions: the team's own host."""
        return f"https://{self.team}.cloudflareaccess.com"

    @property
    def keys_url(self) -> str:
        """Where the team's keys are: there are no metadata that would tell."""
        return f"{self.issuer}/cdn-cgi/access/certs"


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """Static keys, known by their SHA-256; ``carriers`` are the header fields in which one may come."""

    caller: str
    carriers: frozenset[str] = frozenset({"authorization"})
    kind = CredentialKind.API_KEY


CallerTrust = AccessTokenIssuer | IntrospectionIssuer | CloudflareAccess | ApiKeys
