"""Asks one issuer what the gateway itself asks of it: its keys, or about a token; and what time it has.

Enters: an issuer of a policy with its sources in the settings. Leaves: a ``KeySet``, an answer, a ``Reply``. The way is
that of ``adapters.issuer_http``, with all its bounds, so that what works here works there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gateway.adapters.inquirer import Inquirer, origin
from gateway.adapters.issuer_http import IssuerHttp, metadata_urls, within
from gateway.adapters.jwks import JwksFetcher
from gateway.identity.key_set import KeySet
from gateway.inquiry import Failure, Reply
from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from gateway.adapters.introspection import IntrospectionSource
    from gateway.adapters.jwks import IssuerSource

NO_TOKEN = "vllm-gateway-doctor"  # noqa: S105  (no token: that is the question)
"""What an issuer is asked about; it cannot know it."""


class IssuerProbe:
    """The way to one issuer; ``introspection`` is for those who are asked about tokens."""

    def __init__(self, issuer: str, source: IssuerSource, introspection: IntrospectionSource | None = None) -> None:
        self._issuer = issuer
        self._source = source
        self._introspection = introspection

    async def key_set(self) -> KeySet:
        """Fetch the keys. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""
        fetcher = JwksFetcher()
        try:
            return KeySet.parse(await fetcher.fetch(self._issuer, self._source))
        finally:
            await fetcher.close()

    async def introspect(self) -> bytes:
        """Ask about a token that does not exist. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""
        source = self._introspection
        if source is None:
            raise Unavailable(Reason.KEYS_UNAVAILABLE, "the settings have no credential for asking")
        http = IssuerHttp()
        try:
            async with within(source.timeout_s):
                url = source.url or await http.endpoint(self._issuer, "introspection_endpoint")
                return await http.post(url, {"token": NO_TOKEN}, source.authorization)
        finally:
            await http.close()

    async def look(self) -> Reply:
        """Ask for a document of its, for the time that the answer bears."""
        with suppress(ValueError):
            address, target = origin(self._source.jwks_url or next(metadata_urls(self._issuer)))
            return await Inquirer.of_origin(address)("GET", target, within_s=self._source.timeout_s)
        return Reply(failure=Failure.NO_NAME)
