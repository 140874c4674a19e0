"""The field lines of a request's head, as the HTTP parser split them.

Enters: names as they were spelled and values with the white space behind them. Leaves: ``FieldLines``, which also tells
where the four fields stand that nearly every request has, unless there is a name among them that asks for a longer
look. It looks at no value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# RFC 9110 §5.3: singletons; two of one are read first-wins here and last-wins there. Credentials are judged later
# than paths (an unknown path with two of them is still a 404), so their repetition is only noted.
CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"cf-access-jwt-assertion", b"dpop"})
SINGLE = frozenset(
    {
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"content-type",
        b"content-encoding",
        b"expect",
        b"origin",
        b"x-request-id",
        b"cf-connecting-ip",
        b"cf-ray",
    }
)
# Without any of these, all that is asked of a request is read from four fields. llhttp takes Proxy-Connection for a
# Connection: without both, a connection that it keeps speaks HTTP/1.1 (``FieldLines.plain``).
_SELDOM = SINGLE.union(
    CREDENTIALS, {b"connection", b"proxy-connection", b"upgrade", b"http2-settings"}
).difference({b"host", b"authorization", b"content-type", b"content-length"})  # fmt: skip

MOST_PLAIN = 50
LONGEST_PLAIN = 2048
"""Fields that a plain head may have at most, and octets of their names."""

# RFC 9110 §5.6.2  token = 1*tchar
_TOKENS = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")


class Positions(NamedTuple):
    """Where the value of each field stands among all values; ``None`` where the field is absent."""

    host: int
    authorization: int | None
    content_type: int | None
    content_length: int | None


class FieldLines:
    """Names and values in their order.

    ``plain``: set where each name is a token that comes once, Host is there, and nothing that few requests have.
    """

    __slots__ = ("names", "plain", "values")

    def __init__(self, names: tuple[bytes, ...], values: list[bytes], plain: Positions | None) -> None:
        self.names = names
        self.values = values
        self.plain = plain

    @classmethod
    def of(cls, lines: Iterable[tuple[bytes, bytes]]) -> FieldLines:
        """Take names with their values."""
        pairs = list(lines)
        names = tuple(name for name, _ in pairs)
        return cls(names, [value for _, value in pairs], plain_names(names)[1])

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """Give each field: its name in lower case; white space behind a value is no part of it (RFC 9112 §5.1)."""
        return [(name.lower(), value.rstrip(b" \t")) for name, value in zip(self.names, self.values, strict=True)]

    def has(self, name: bytes) -> bool:
        """Tell whether there is a field of this name (in lower case)."""
        return any(spelled.lower() == name for spelled in self.names)

    def __repr__(self) -> str:
        """Name how many there are: values hold credentials."""
        return f"FieldLines({len(self.names)})"


NO_FIELDS = FieldLines((), [], None)
"""Of a head that nobody reads, or nobody any more."""


def plain_names(names: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], Positions | None]:
    """Give names as they came the first time, with where they stand; clients send the same ones again and again.

    Whoever keeps them for a while so keeps no copy of its own.
    """
    # Of thousands of names each takes more than its octets: they would stay until as many other heads have come.
    return _first_come(names) if len(names) <= MOST_PLAIN else (names, None)


@lru_cache(maxsize=128)  # of at most 40 KiB each, as the edge takes no longer head
def _first_come(names: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], Positions | None]:
    return names, plain_positions(names)


def plain_positions(names: tuple[bytes, ...]) -> Positions | None:
    """Find where the fields of a plain head stand, by the names alone."""
    if len(names) > MOST_PLAIN or sum(map(len, names)) > LONGEST_PLAIN:
        return None
    lowered = [name.lower() for name in names]
    found = {name: position for position, name in enumerate(lowered)}
    if len(found) != len(lowered) or not _SELDOM.isdisjoint(found) or b"host" not in found:
        return None
    if not all(lowered) or _TOKENS.fullmatch(b"".join(lowered)) is None:
        return None
    get = found.get
    return Positions(found[b"host"], get(b"authorization"), get(b"content-type"), get(b"content-length"))
