"""What a plane says about itself to whoever asks: OAuth protected resource metadata (RFC 9728).

Enters: the identifier of the resource, the issuers that the plane trusts, the scopes that its endpoints need. Leaves:
the document and its place, both constants of a policy. Nothing of a request enters: the address that a caller used, or
that a proxy reports, could be anybody's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.identity.confirmation import MTLS
from gateway.identity.issuer import AccessTokenIssuer, IntrospectionIssuer
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gateway.identity.issuer import CallerTrust

WELL_KNOWN = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """The document of one plane. ``path``: its exact target here; ``url``: what a challenge names (RFC 9728 §5.1)."""

    path: bytes
    url: str
    body: bytes

    @classmethod
    def of(cls, resource: str, callers: Collection[CallerTrust], scopes: Iterable[str], name: str) -> ResourceMetadata:
        """Describe a resource by its https identifier, which has neither query nor fragment."""
        # RFC 9728 §3.1: the well-known part stands between the host and the path, a lone slash is no path.
        scheme, _, rest = resource.partition("://")
        host, slash, below = rest.partition("/")
        path = WELL_KNOWN + (f"{slash}{below}" if below else "")
        issuers = {
            trust.issuer: None for trust in callers if isinstance(trust, AccessTokenIssuer | IntrospectionIssuer)
        }
        document = {
            "resource": resource,
            "authorization_servers": [*issuers],
            "scopes_supported": sorted({*scopes}),
            "bearer_methods_supported": ["header"],
            "tls_client_certificate_bound_access_tokens": any(
                isinstance(trust, AccessTokenIssuer) and trust.sender == MTLS for trust in callers
            ),
            "resource_name": name,
        }
        # RFC 9728 §3.2: a member without values is left out; one that would be false is, too.
        body = strict_json.dumps({member: value for member, value in document.items() if value})
        return cls(path.encode("ascii"), f"{scheme}://{host}{path}", body)
