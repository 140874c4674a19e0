"""Fetches an access token by client credentials, to try a plane: ``vllm-gateway token`` (RFC 6749 §4.4).

Enters: an issuer, or the address of its token endpoint, and a client's credential. Leaves: the issuer's answer, or
``NoToken`` with a sentence. The protocol is Authlib's; the way is ours, with the bounds of all that leaves this house:
https or loopback, no redirect, no proxy of the environment, one deadline. The credential is a secret, the connection's
certificate (RFC 8705 §2), or both, where a token is to be bound to the certificate (§3).
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlencode

import httpx2
from authlib.oauth2.base import OAuth2Error
from authlib.oauth2.client import OAuth2Client

from gateway.adapters.issuer_http import IssuerHttp, is_safe, within
from gateway.reasons import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TIMEOUT_S = 10.0


class NoToken(Exception):  # noqa: N818  (says what is so)
    """The issuer gave no token; the text is a sentence. ``refused``: it said no, rather than nothing."""

    def __init__(self, sentence: str, *, refused: bool = False) -> None:
        super().__init__(sentence)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Application:
    """Who asks for a token, and for what: ``resource`` is RFC 8707's word for an audience, ``audience`` is Auth0's.

    Without ``client_secret`` the ``certificate`` (files of the certificate and of its key) says who it is.
    """

    client_id: str
    client_secret: str | None = field(repr=False)
    scope: str | None = None
    resource: str | None = None
    audience: str | None = None
    method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    certificate: tuple[Path, Path] | None = None

    @property
    def wishes(self) -> Mapping[str, str]:
        """What the form says besides the grant."""
        wishes = {"scope": self.scope, "resource": self.resource, "audience": self.audience}
        return {name: value for name, value in wishes.items() if value is not None}


def fetch(application: Application, *, issuer: str | None = None, url: str | None = None) -> dict[str, Any]:
    """Ask for a token. Raises ``NoToken``."""
    endpoint = url or asyncio.run(_endpoint(issuer or "", mutual=application.certificate is not None))
    if not is_safe(endpoint, loopback=True):
        raise NoToken("The token endpoint must be an https URL; plain http is for loopback hosts alone.")
    tls = _showing(application.certificate)
    with httpx2.Client(trust_env=False, follow_redirects=False, timeout=TIMEOUT_S, verify=tls) as client:
        oauth = OAuth2Client(
            _Session(client),
            client_id=application.client_id,
            client_secret=application.client_secret,
            token_endpoint_auth_method=application.method if application.client_secret else "none",
        )
        try:
            return dict(oauth.fetch_token(endpoint, grant_type="client_credentials", **application.wishes))
        except OAuth2Error as error:
            described = f" ({error.description})" if error.description else ""
            raise NoToken(f"The issuer gave no token: {error.error}{described}.", refused=True) from None
        except httpx2.HTTPStatusError as error:
            raise NoToken(f"The issuer answered with status {error.response.status_code}.", refused=True) from None
        except httpx2.HTTPError as error:
            raise NoToken(f"The issuer cannot be reached: {type(error).__name__}.") from None
        except ValueError:
            raise NoToken("The issuer's answer is not one JSON object.") from None


class _Credential(Protocol):
    """Authlib's ``ClientAuth``: puts the client's credential into a request."""

    def prepare(self, method: str, uri: str, headers: dict[str, str], body: str) -> tuple[str, dict[str, str], str]:
        """Give address, fields and body anew."""


class _Session:
    """What Authlib sends through."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def post(self, url: str, data: Mapping[str, str], headers: Mapping[str, str], auth: _Credential) -> httpx2.Response:
        """Send one form, with the client's credential where ``auth`` puts it."""
        url, fields, body = auth.prepare("POST", url, dict(headers), urlencode(data))
        return self._client.post(url, content=body, headers=fields)


def _showing(certificate: tuple[Path, Path] | None) -> ssl.SSLContext:
    """Show a certificate to who asks for one. Raises ``NoToken``."""
    tls = ssl.create_default_context()
    if certificate is not None:
        try:
            tls.load_cert_chain(*certificate)
        except OSError as error:
            why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise NoToken(f"The client certificate or its key cannot be used: {why}.") from None
    return tls


async def _endpoint(issuer: str, *, mutual: bool) -> str:
    """Find the token endpoint in the issuer's metadata."""
    http = IssuerHttp()
    try:
        async with within(TIMEOUT_S):
            return await http.endpoint(issuer, "token_endpoint", mutual=mutual)
    except Unavailable as failure:
        raise NoToken(f"The token endpoint was not found: {failure.detail}.") from None
    finally:
        await http.close()
