"""How many credentials may fail: a bucket for each address that is known, and one for all the rest.

Enters: an address or ``None``, and the time, for each credential that failed. Leaves: how long whoever fails again has
to wait. Only failures are counted and only failures are told to wait, so that nobody who sends what holds is ever
delayed: behind a tunnel everybody has one address. It knows no credential and no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

MOST_ADDRESSES = 10_000
_HOME = 64  # RFC 4291 §2.5.4: whoever has one address of IPv6 has the 2^64 that begin alike


@dataclass(frozen=True, slots=True)
class Bound:
    """At most ``burst`` at once, and ``per_second`` of them in the long run."""

    burst: int
    per_second: float


class Bucket:
    """Counts against one bound, with a single number: the time at which all that was counted will have run off."""

    def __init__(self, bound: Bound) -> None:
        self._interval_s = 1 / bound.per_second
        self._depth_s = (bound.burst - 1) * self._interval_s
        self._empty_at = 0.0

    def wait_s(self, now: float) -> float:
        """Give the seconds until the next one fits; 0 if it fits now."""
        return max(0.0, self._empty_at - self._depth_s - now)

    def count(self, now: float) -> None:
        """Count one that fits. What does not fit is not counted: who waits as told is let through."""
        self._empty_at = max(self._empty_at, now) + self._interval_s


class Failures:
    """The failures of one plane; ``each`` bounds those of an address, ``rest`` those from nowhere in particular."""

    def __init__(self, each: Bound, rest: Bound, most: int = MOST_ADDRESSES) -> None:
        self._each = each
        self._rest = Bucket(rest)
        self._most = most
        self._known: OrderedDict[str, Bucket] = OrderedDict()

    def wait_s(self, address: str | None, now: float) -> float:
        """Give the seconds for which a failure from this address is one too many; 0 if it is not."""
        bucket = self._known.get(_home(address)) if address else self._rest
        return 0.0 if bucket is None else bucket.wait_s(now)

    def fail(self, address: str | None, now: float) -> float:
        """Count a failure and give 0, or the seconds to wait if it is one too many."""
        bucket = self._bucket(_home(address)) if address else self._rest
        wait_s = bucket.wait_s(now)
        if not wait_s:
            bucket.count(now)
        return wait_s

    def _bucket(self, home: str) -> Bucket:
        """Give the bucket of an address; the one that failed longest ago makes room for a new one."""
        bucket = self._known.get(home)
        if bucket is None:
            bucket = self._known[home] = Bucket(self._each)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(home)
        return bucket

    def __len__(self) -> int:
        return len(self._known)


def _home(address: str) -> str:
    """Give what one party surely has of an address: all of IPv4, the first half of IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return f"{int(parsed) >> _HOME:x}::"
    return str(parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else parsed)
