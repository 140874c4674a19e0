"""How many tokens a prompt has, before anybody has counted them.

Enters: the body as it is sent. Leaves: a number. No tokenizer is asked: an estimate holds only until the engine has
counted.
"""

from __future__ import annotations

import re

BYTES_PER_TOKEN = 4
"""English text and code; what is denser is corrected when the engine has counted."""

MEDIA_TOKENS = 1000
"""For an image or a recording within the body, whose length in base64 says nothing about its tokens."""

MOST = 10**12
"""More than anybody means by a number of tokens, and few enough to be added up anywhere."""

_MEDIA = b'"data:'
_DATA_URL = re.compile(rb'"data:[^"]*"')


def prompt_tokens(body: bytes) -> int:
    """Estimate the tokens of a prompt from the body that holds it."""
    size = len(body)
    media = 0
    if _MEDIA in body:
        for found in _DATA_URL.finditer(body):
            size -= len(found[0])
            media += 1
    return -(-size // BYTES_PER_TOKEN) + media * MEDIA_TOKENS
