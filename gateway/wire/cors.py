"""Which web pages may read answers: the CORS protocol (Fetch Standard §3.3), for a closed list of origins.

Enters: the exact origins of a plane, and what a browser says. Leaves: header lines for every answer of the plane, and
for the preflight that a browser sends before a request. No line ever permits cookies or client certificates
(``Access-Control-Allow-Credentials``): a caller is who bears a token, and a page must bring its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXPOSED = (
    "x-request-id",
    "retry-after",
    "x-gateway-changes",
    "proxy-status",
    "www-authenticate",
    "dpop-nonce",
    "ratelimit",
    "ratelimit-policy",
    *(f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")),
)
"""Fields of an answer that a page may read besides the few that every page may (Fetch §2.2.2)."""

KEPT_S = 600
"""Seconds for which a browser need not ask again."""

MOST_NAMES = 64
LONGEST_NAMES = 2048

# RFC 9110 §5.6.2  token, in the lower case in which browsers write it here
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]{1,128}")
_VARY = b"vary: Origin\r\n"
_EXPOSE = b"access-control-expose-headers: %b\r\n" % ", ".join(EXPOSED).encode("ascii")


class CorsRule:
    """The origins of one plane; without any, there is no CORS and no answer speaks of it."""

    def __init__(self, origins: Iterable[str]) -> None:
        # What an answer to each says, and to everybody else: caches must keep them apart (RFC 9110 §12.5.5).
        self._lines = {
            origin.encode("ascii"): (b"access-control-allow-origin: %b\r\n" % origin.encode("ascii"), _EXPOSE, _VARY)
            for origin in origins
        }
        self._others = (_VARY,) if self._lines else ()

    def lines(self, origin: bytes | None) -> tuple[bytes, ...]:
        """Give the lines of an answer to a request with this ``Origin``: whatever the answer is, a refusal too."""
        return self._lines.get(origin, self._others) if origin is not None else self._others

    def preflight(
        self, origin: bytes | None, raw: Sequence[tuple[bytes, bytes]], methods: Iterable[str]
    ) -> list[bytes] | None:
        """Give what answers a preflight beside ``lines``; ``None`` for what is none, or comes from elsewhere.

        ``raw``: the request's fields. ``methods``: those of the path. The names that the page wants to send are
        permitted as they are: a field that the gateway does not know is never looked at, so it cannot matter.
        """
        asked = [value for name, value in raw if name == b"access-control-request-method"]
        if origin not in self._lines or len(asked) != 1:
            return None
        lines = [
            b"access-control-allow-methods: %b\r\n" % ", ".join(sorted(methods)).encode("ascii"),
            b"access-control-max-age: %d\r\n" % KEPT_S,
        ]
        wanted = b",".join(value for name, value in raw if name == b"access-control-request-headers")
        names = [name.strip(b" \t") for name in wanted.split(b",")] if len(wanted) <= LONGEST_NAMES else []
        if 0 < len(names) <= MOST_NAMES and all(map(_NAME.fullmatch, names)):
            lines.append(b"access-control-allow-headers: %b\r\n" % b", ".join(names))
        return lines
