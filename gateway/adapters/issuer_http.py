"""Speaks with issuers over HTTP: reads one document, or asks one question, within bounds.

Enters: addresses from the settings or from an issuer's own metadata. Leaves: octets, or
``Unavailable(KEYS_UNAVAILABLE)``. Every bound is here: https or loopback, no redirect, no proxy or netrc of the
environment, a cap on octets as they arrive, no content coding; ``within`` is the one deadline over all that is asked in
its block. What the octets mean is for others.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from gateway import __version__
from gateway.identity.key_set import MOST_BYTES
from gateway.reasons import Malformed, Reason, Unavailable
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": f"vllm-gateway/{__version__}"}


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """End what is asked in this block, however many documents it takes: a caller waits for it.

    Raises ``Unavailable(KEYS_UNAVAILABLE)`` after these seconds.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise _unavailable(f"the issuer did not answer within {seconds:g} s") from None


class IssuerHttp:
    """One client for any number of issuers; it asks ``within`` a deadline. ``close`` it at the end."""

    def __init__(self) -> None:
        # trust_env off: a proxy or netrc of the environment must not redirect the keys, or add credentials to them.
        self._client = httpx2.AsyncClient(trust_env=False, follow_redirects=False, headers=_HEADERS, timeout=None)

    async def get(self, url: str) -> bytes:
        """Read one document. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""
        return await self._read("GET", url)

    async def post(self, url: str, form: Mapping[str, str], authorization: str) -> bytes:
        """Ask with a form, as RFC 7662 §2.1 wants it. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""
        return await self._read("POST", url, data=form, headers={"authorization": authorization})

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def endpoint(self, issuer: str, member: str, *, mutual: bool = False) -> str:
        """Find an address in the issuer's own metadata: OpenID Connect Discovery §4, else RFC 8414 §3.

        ``mutual``: take the address for those who show a certificate, where there is one (RFC 8705 §5).

        Raises ``Unavailable(KEYS_UNAVAILABLE)``.
        """
        refusal = _unavailable("the issuer has no metadata")
        for url in metadata_urls(issuer):
            try:
                metadata = strict_json.loads(await self.get(url))
                return _address(metadata, member, issuer, mutual=mutual)
            except Malformed:
                refusal = _unavailable("the issuer's metadata are not one strict JSON object")
            except Unavailable as error:
                refusal = error
        raise refusal

    async def _read(self, method: str, url: str, **sent: Any) -> bytes:  # noqa: ANN401  (httpx2's own arguments)
        """Read at most 256 KiB, without a timeout of its own: one for each read would let an answer drip."""
        body = bytearray()
        try:
            async with self._client.stream(method, url, **sent) as response:
                if response.status_code != httpx2.codes.OK:
                    raise _unavailable(f"the issuer answered with status {response.status_code}")
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise _unavailable(f"the issuer's document is larger than {MOST_BYTES} bytes")
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


def is_safe(url: str, *, loopback: bool) -> bool:
    """Tell whether keys or answers may come from an address: over TLS, or without it from this very host."""
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


def _address(metadata: dict[str, Any], member: str, issuer: str, *, mutual: bool) -> str:
    """Take an address from metadata that name this very issuer (RFC 8414 §3.3)."""
    if metadata.get("issuer") != issuer:
        raise _unavailable("the issuer's metadata name another issuer")
    aliases = metadata.get("mtls_endpoint_aliases") if mutual else None
    url = aliases.get(member, metadata.get(member)) if type(aliases) is dict else metadata.get(member)
    # Only an issuer that is on loopback itself may point there: any other could make the gateway ask its own host.
    if type(url) is not str or not is_safe(url, loopback=urlsplit(issuer).hostname in _LOOPBACK):
        raise _unavailable(f"the issuer's metadata have no {member} with https")
    return url


def _unavailable(detail: str) -> Unavailable:
    return Unavailable(Reason.KEYS_UNAVAILABLE, detail)
