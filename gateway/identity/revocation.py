"""Tokens and keys that are void before their time: the list that an operator keeps.

Enters: the text of the list, then tokens that are verified already. Leaves: whether a token is on it, by its ``jti`` or
by the SHA-256 of its text. A line is one entry; what follows a ``#`` at its beginning or after a blank is a comment. It
reads no file and knows no time.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from gateway.identity import base64url

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_ENTRY = 255

_COMMENT = re.compile(r"(?:^|\s)#.*")
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
# The order of P-256 and of P-384 (FIPS 186-5, SP 800-186 §3.2.1.3-4), by the octets of a signature (RFC 7518 §3.4).
_ORDERS = {
    64: 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    96: 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
}


@dataclass(frozen=True, slots=True)
class Revoked:
    """The entries of one list."""

    entries: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a list. Raises ``ValueError`` with the number of the line that is no entry."""
        entries = set()
        for number, line in enumerate(text.split("\n"), 1):
            entry = _COMMENT.sub("", line, count=1).strip()
            if not entry:
                continue
            if len(entry) > LONGEST_ENTRY or not entry.isprintable() or any(mark.isspace() for mark in entry):
                raise ValueError(
                    f"line {number} is no jti and no SHA-256: one entry a line, of at most {LONGEST_ENTRY} characters"
                )
            entries.add(entry)
            if _SHA256.fullmatch(entry):
                entries.add(entry.lower())
        return cls(frozenset(entries))

    def names(self, token: str, token_id: str | None) -> bool:
        """Tell whether a token is on the list."""
        if not self.entries:
            return False
        return token_id in self.entries or any(print_ in self.entries for print_ in fingerprints(token))


def fingerprints(token: str) -> Iterator[str]:
    """Give the SHA-256 of a token in hex, and of its twin where it has one.

    Of an ECDSA signature (r, s) anybody can make the equally good one (r, n - s): without the twin, whoever holds a
    revoked token could write it so that it is not on the list. Other signatures have no second form.
    """
    yield sha256(token.encode()).hexdigest()
    signed, _, signature = token.rpartition(".")
    try:
        octets = base64url.decode(signature.encode())
    except ValueError:
        octets = b""  # an opaque token
    order = _ORDERS.get(len(octets))
    if order is not None:
        half = len(octets) // 2
        other = (order - int.from_bytes(octets[half:], "big")) % order
        twin = urlsafe_b64encode(octets[:half] + other.to_bytes(half, "big")).rstrip(b"=").decode()
        yield sha256(f"{signed}.{twin}".encode()).hexdigest()
