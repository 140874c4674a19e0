"""Static keys: how a new one is made, and what is compared.

Enters: random octets, or the text of a key. Leaves: a key of the form ``vgw_`` + 33 characters + 6 of checksum, which
scanners of repositories recognise, or the SHA-256 by which a policy knows it. Any text is a key whose SHA-256 stands
in the policy; the checksum never decides, it tells a typing error from an attack in the audit record. SHA-256 alone is
enough, and fast, because a key is random: 192 bits cannot be guessed from its hash.
"""

from __future__ import annotations

import zlib
from hashlib import sha256

PREFIX = "vgw_"
RANDOM_OCTETS = 24

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_CHARACTERS = 33  # 62 ** 33 > 2 ** 192
_CHECKSUM_CHARACTERS = 6  # 62 ** 6 > 2 ** 32


def new_key(random_octets: bytes) -> str:
    """Make a key of exactly 24 random octets. Raises ``ValueError`` for another number."""
    if len(random_octets) != RANDOM_OCTETS:
        raise ValueError(f"a key is made of {RANDOM_OCTETS} random octets")
    body = _base62(int.from_bytes(random_octets, "big"), _RANDOM_CHARACTERS)
    return f"{PREFIX}{body}{_checksum(body)}"


def sha256_of(key: str) -> str:
    """Give the SHA-256 of a key in lower-case hex: of its exact text, neither trimmed nor folded."""
    return sha256(key.encode()).hexdigest()


def has_valid_checksum(key: str) -> bool:
    """Tell whether a text is a key that this gateway could have made, without a typing error."""
    body = key[len(PREFIX) : -_CHECKSUM_CHARACTERS]
    return key.startswith(PREFIX) and len(body) == _RANDOM_CHARACTERS and key[-_CHECKSUM_CHARACTERS:] == _checksum(body)


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECKSUM_CHARACTERS)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
