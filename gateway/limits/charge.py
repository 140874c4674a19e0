"""How many tokens a prompt has, before anybody has counted them.

Enters: the length of a body as it is sent, and how many images and recordings it names. Leaves: a number. No tokenizer
is asked: an estimate holds only until the engine has counted.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4
"""English text and code; what is denser is corrected when the engine has counted."""

MEDIA_TOKENS = 1000
"""For an image or a recording, whose length in base64 says nothing about its tokens."""

MOST = 10**12
"""More than anybody means by a number of tokens, and few enough to be added up anywhere."""


def prompt_tokens(size: int, media: int = 0) -> int:
    """Estimate the tokens of a prompt in a body of so many bytes, those of its media left out."""
    return -(-size // BYTES_PER_TOKEN) + media * MEDIA_TOKENS
