"""Fetches the key set of an issuer, and nothing else.

Enters: an issuer from the policy and its ``IssuerSource`` from the environment. Leaves: the bytes of its JWKS
document, or ``Unavailable(KEYS_UNAVAILABLE)``. Every bound is here: https or loopback, no redirect, no proxy or netrc
of the environment, one deadline over all, a cap on octets as they arrive. What the bytes mean is for
``identity.key_set``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from gateway import __version__
from gateway.identity.key_set import MOST_BYTES
from gateway.reasons import Malformed, Reason, Unavailable
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": f"vllm-gateway/{__version__}"}


@dataclass(frozen=True, slots=True)
class IssuerSource:
    """Where the keys of one caller come from, and how long they last, in seconds.

    Without ``jwks_url`` the issuer's metadata name the address. ``max_age_s``: when a set is fetched anew.
    ``max_stale_s``: how long the last good one serves when that fails. ``cool_down_s``: the least time between two
    fetches that tokens with an unknown kid cause. ``timeout_s``: the deadline of one document. Raises ``ValueError``
    for an address that is not safe.
    """

    jwks_url: str | None = None
    max_age_s: float = 600.0
    max_stale_s: float = 86_400.0
    cool_down_s: float = 60.0
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if self.jwks_url is not None and not _is_safe(self.jwks_url, loopback=True):
            raise ValueError("a JWKS URL is https, or http on a loopback host, without credentials and fragment")


class JwksFetcher:
    """Fetches over HTTP; one instance serves all issuers. ``close`` it at the end."""

    def __init__(self) -> None:
        # trust_env off: a proxy or netrc of the environment must not redirect the keys, or add credentials to them.
        self._client = httpx2.AsyncClient(trust_env=False, follow_redirects=False, headers=_HEADERS, timeout=None)

    async def fetch(self, issuer: str, source: IssuerSource) -> bytes:
        """Give the issuer's JWKS document. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""
        url = source.jwks_url or await self._discover(issuer, source.timeout_s)
        return await self._get(url, source.timeout_s)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _discover(self, issuer: str, timeout_s: float) -> str:
        """Find ``jwks_uri`` in the issuer's own metadata: OpenID Connect Discovery §4, else RFC 8414 §3."""
        refusal = _unavailable("the issuer has no metadata")
        for url in metadata_urls(issuer):
            try:
                metadata = strict_json.loads(await self._get(url, timeout_s))
                return _jwks_uri(metadata, issuer)
            except Malformed:
                refusal = _unavailable("the issuer's metadata are not one strict JSON object")
            except Unavailable as error:
                refusal = error
        raise refusal

    async def _get(self, url: str, timeout_s: float) -> bytes:
        """Read one document, at most 256 KiB of it, within one deadline: timeouts of single reads would let it drip."""
        body = bytearray()
        try:
            async with asyncio.timeout(timeout_s), self._client.stream("GET", url) as response:
                if response.status_code != httpx2.codes.OK:
                    raise _unavailable(f"the issuer answered with status {response.status_code}")
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise _unavailable(f"the issuer's document is larger than {MOST_BYTES} bytes")
        except TimeoutError:
            raise _unavailable(f"the issuer did not answer within {timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _unavailable(f"the issuer cannot be reached ({type(error).__name__})") from error
        return bytes(body)


def metadata_urls(issuer: str) -> Iterator[str]:
    """Give the places of an issuer's metadata: appended for OpenID Connect, inserted before the path for RFC 8414."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    origin = f"{parts.scheme}://{parts.netloc}"
    yield f"{origin}{path}/.well-known/openid-configuration"
    yield f"{origin}/.well-known/oauth-authorization-server{path}"


def _jwks_uri(metadata: dict[str, Any], issuer: str) -> str:
    """Take the address of the keys from metadata that name this very issuer (RFC 8414 §3.3)."""
    if metadata.get("issuer") != issuer:
        raise _unavailable("the issuer's metadata name another issuer")
    url = metadata.get("jwks_uri")
    # Only an issuer that is on loopback itself may point there: any other could make the gateway ask its own host.
    if type(url) is not str or not _is_safe(url, loopback=_is_loopback(issuer)):
        raise _unavailable("the issuer's metadata have no jwks_uri with https")
    return url


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK


def _is_safe(url: str, *, loopback: bool) -> bool:
    """Tell whether keys may be fetched from an address: over TLS, or without it from this very host."""
    try:
        parts = urlsplit(url)
        plain = "@" not in parts.netloc and not parts.fragment and parts.port != 0
    except ValueError:
        return False
    return (
        plain
        and bool(parts.hostname)
        and (parts.scheme == "https" or (parts.scheme == "http" and loopback and parts.hostname in _LOOPBACK))
    )


def _unavailable(detail: str) -> Unavailable:
    return Unavailable(Reason.KEYS_UNAVAILABLE, detail)
