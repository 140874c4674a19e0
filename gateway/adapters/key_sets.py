"""The keys of all issuers: owned by the app, they outlive every policy.

Enters: sources from the settings, and with each policy the issuers to keep. Leaves: ``IssuerKeys`` by caller, their
ages, and a ``generation`` that grows with each change, so that caches of proofs know when to forget.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.adapters.issuer_keys import IssuerKeys
from gateway.adapters.jwks import IssuerSource
from gateway.identity.issuer import CloudflareAccess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from gateway.adapters.issuer_keys import Fetcher
    from gateway.identity.issuer import AccessTokenIssuer


class KeySets:
    """All the keys of this process; a caller that ``sources`` does not name has the defaults of ``IssuerSource``."""

    def __init__(self, sources: Mapping[str, IssuerSource], fetcher: Fetcher) -> None:
        self.generation = 0
        self._sources = sources
        self._fetcher = fetcher
        self._kept: dict[str, IssuerKeys] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sets fresh within this block; an issuer that is down does not keep it from starting."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for keys in self._kept.values():
                self._start(keys)
            try:
                yield
            finally:
                self._group = None
                for task in self._running.values():
                    task.cancel()
                self._running.clear()

    def keep(self, signers: Mapping[str, AccessTokenIssuer | CloudflareAccess]) -> None:
        """Keep the keys of these issuers (by caller) from now on: new ones are fetched, those gone are no longer."""
        for caller, keys in list(self._kept.items()):
            if caller not in signers or signers[caller].issuer != keys.issuer:
                del self._kept[caller]
                if caller in self._running:
                    self._running.pop(caller).cancel()
        for caller, signer in signers.items():
            if caller not in self._kept:
                source = self._sources.get(caller, IssuerSource())
                if isinstance(signer, CloudflareAccess) and source.jwks_url is None:
                    source = replace(source, jwks_url=signer.keys_url)
                self._kept[caller] = IssuerKeys(caller, signer.issuer, source, self._fetcher, self._changed)
                self._start(self._kept[caller])

    def of(self, caller: str) -> IssuerKeys:
        """Give the keys of a caller that is kept."""
        return self._kept[caller]

    def ages_s(self) -> Mapping[str, float | None]:
        """Give the age of each set in seconds; ``None`` for a caller that has no keys."""
        return {caller: keys.age_s for caller, keys in self._kept.items()}

    def _start(self, keys: IssuerKeys) -> None:
        if self._group is not None:
            self._running[keys.caller] = self._group.create_task(keys.run())

    def _changed(self) -> None:
        self.generation += 1
