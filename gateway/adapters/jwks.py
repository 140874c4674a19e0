"""Fetches the key set of an issuer, and nothing else.

Enters: an issuer from the policy and its ``IssuerSource`` from the environment. Leaves: the octets of its JWKS
document, or ``Unavailable(KEYS_UNAVAILABLE)``. The bounds are those of ``adapters.issuer_http``; what the octets mean
is for ``identity.key_set``.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.adapters.issuer_http import IssuerHttp, is_safe, within


@dataclass(frozen=True, slots=True)
class IssuerSource:
    """Where the keys of one caller come from, and how long they last, in seconds.

    Without ``jwks_url`` the issuer's metadata name the address. ``max_age_s``: when a set is fetched anew.
    ``max_stale_s``: how long the last good one serves when that fails. ``cool_down_s``: the least time between two
    fetches that tokens with an unknown kid cause. ``timeout_s``: the deadline of one fetch, the issuer's metadata
    included. Raises ``ValueError`` for an address that is not safe.
    """

    jwks_url: str | None = None
    max_age_s: float = 600.0
    max_stale_s: float = 86_400.0
    cool_down_s: float = 60.0
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if self.jwks_url is not None and not is_safe(self.jwks_url, loopback=True):
            raise ValueError("a JWKS URL is https, or http on a loopback host, without credentials and fragment")


class JwksFetcher:
    """Fetches over HTTP; one instance serves all issuers. ``close`` it at the end."""

    def __init__(self) -> None:
        self._http = IssuerHttp()

    async def fetch(self, issuer: str, source: IssuerSource) -> bytes:
        """Give the issuer's JWKS document. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""
        async with within(source.timeout_s):
            return await self._http.get(source.jwks_url or await self._http.endpoint(issuer, "jwks_uri"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
