"""The keys of one issuer, kept fresh while the gateway runs.

Enters: a fetcher (port), the times of an ``IssuerSource``. Leaves: the newest good ``KeySet``, at once for tokens
whose key is known; the age of it for metrics. A set is replaced as a whole or kept as a whole. It is fetched on
schedule, and out of schedule only for an unknown kid, once in a cool-down whoever asks, in one flight whoever waits.
It judges no token.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Protocol

import structlog

from gateway.identity.key_set import KeySet
from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.adapters.jwks import IssuerSource

# An issuer that is down is asked again after 1, 2, 4 … 30 seconds.
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0

_log = structlog.get_logger("gateway.keys")


class Fetcher(Protocol):
    """Where documents come from (``adapters.jwks.JwksFetcher``)."""

    async def fetch(self, issuer: str, source: IssuerSource) -> bytes:
        """Give the JWKS document of an issuer. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""


class IssuerKeys:
    """The keys of the issuer behind one caller.

    ``changed`` is called after each change of the set, so that what was proved with the old one can be forgotten.
    ``key_set`` is ``None`` before the first answer and again when the last good one is older than ``max_stale_s``.
    """

    def __init__(
        self,
        caller: str,
        issuer: str,
        source: IssuerSource,
        fetcher: Fetcher,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caller = caller
        self.issuer = issuer
        self.key_set: KeySet | None = None
        self._source = source
        self._fetcher = fetcher
        self._changed = changed
        self._clock = clock
        self._fetched_at = -math.inf
        self._failures = 0
        self._look_again_at = 0.0
        self._flight: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None

    @property
    def age_s(self) -> float | None:
        """Seconds since the issuer last confirmed the set; ``None`` without a set."""
        return None if self.key_set is None else self._clock() - self._fetched_at

    async def run(self) -> None:
        """Keep the set fresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                while True:
                    await self._refresh(group)
                    await asyncio.sleep(self._rest_s())
                    self._drop_if_stale()
            finally:
                self._group = None

    async def keys_for(self, kid: str | None) -> KeySet:
        """Give the set, looking once for a newer one if it lacks this kid. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""
        if self._group is not None and (self.key_set is None or not self.key_set.knows(kid)):
            await self._look_again(self._group)
        keys = self.key_set
        if keys is None:
            raise self._unavailable(self._pause_s() if self._failures else _FIRST_PAUSE_S)
        if self._failures and not keys.knows(kid):
            # The key may be a new one: a caller who is told "invalid" would throw a good token away.
            raise self._unavailable(self._look_again_at - self._clock())
        return keys

    async def _look_again(self, group: asyncio.TaskGroup) -> None:
        """Wait for the fetch under way, or fetch for an unknown kid, once in a cool-down.

        Only these fetches start a cool-down, so that a rotation is seen at once. Without any set the schedule alone
        decides: an issuer that is down is not asked more often because callers wait.
        """
        if not self._in_flight():
            now = self._clock()
            if self.key_set is None or now < self._look_again_at:
                return
            self._look_again_at = now + self._source.cool_down_s
        await self._refresh(group)

    async def _refresh(self, group: asyncio.TaskGroup) -> None:
        """Fetch once, or wait for the fetch under way, which goes on when the one who caused it leaves."""
        if self._flight is None or self._flight.done():
            self._flight = group.create_task(self._fetch())
        await asyncio.wait((self._flight,))

    def _unavailable(self, seconds: float) -> Unavailable:
        detail = f"no keys of caller {self.caller} that could decide"
        return Unavailable(Reason.KEYS_UNAVAILABLE, detail, retry_after=max(1, math.ceil(seconds)))

    def _in_flight(self) -> bool:
        return self._flight is not None and not self._flight.done()

    async def _fetch(self) -> None:
        """Replace the set by the issuer's, or keep it."""
        try:
            fetched = KeySet.parse(await self._fetcher.fetch(self.issuer, self._source))
        except Unavailable as error:
            self._failures += 1
            _log.warning("key set not refreshed", caller=self.caller, failures=self._failures, why=error.detail)
            return
        except Exception:  # noqa: BLE001  (a bug of ours must not void the keys at hand, nor end the process)
            self._failures += 1
            _log.exception("key set not refreshed: bug", caller=self.caller)
            return
        self._failures = 0
        self._fetched_at = self._clock()
        if fetched != self.key_set:
            _log.info("key set changed", caller=self.caller, keys=len(fetched.keys), refused=fetched.refused)
            self.key_set = fetched
            self._changed()

    def _drop_if_stale(self) -> None:
        """Drop a set that the issuer has not confirmed for too long: keys that it withdrew must not live on."""
        if self.key_set is not None and self._clock() >= self._fetched_at + self._source.max_stale_s:
            _log.error("key set dropped: not confirmed for too long", caller=self.caller)
            self.key_set = None
            self._changed()

    def _rest_s(self) -> float:
        """Give the seconds until the next fetch is due, or until the set is too old to be believed."""
        if self.key_set is None:
            return self._pause_s()
        return max(0.0, min(self._pause_s(), self._fetched_at + self._source.max_stale_s - self._clock()))

    def _pause_s(self) -> float:
        """Give the seconds between this attempt and the next one."""
        if not self._failures:
            return self._source.max_age_s
        doubled = _FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 10)
        return min(doubled, _LONGEST_PAUSE_S, self._source.max_age_s)
