"""base64url in its one canonical spelling (RFC 7515 §2, RFC 4648 §5).

Enters: the text of one part. Leaves: its octets, or ``ValueError``. The decoders of the standard library skip what they
do not know and ignore surplus bits, so that one signature has many spellings; a list of revoked tokens, and a cache of
verified ones, must not.
"""

from __future__ import annotations

import binascii

# "-" and "_" stand where plain base64 has "+" and "/"; these, and padding, are not in the alphabet (RFC 7515 §2). "!"
# is in no alphabet, so the decoder refuses what is mapped to it.
_TO_PLAIN = bytes.maketrans(b"-_+/=", b"+/!!!")
# RFC 4648 §3.5: bits that belong to no octet are zero. By overhang: what the last character may be.
_LAST = {2: b"AQgw", 3: b"AEIMQUYcgkosw048"}


def decode(part: bytes) -> bytes:
    """Decode a part. Raises ``ValueError`` for padding, any other alphabet, and surplus bits that are not zero."""
    overhang = len(part) % 4
    if overhang in _LAST and part[-1] not in _LAST[overhang]:
        raise ValueError("surplus bits are not zero")
    return binascii.a2b_base64(part.translate(_TO_PLAIN) + b"=" * (-overhang % 4), strict_mode=True)
