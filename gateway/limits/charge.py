"""What a call costs in tokens: the most that it can cost before it is made, and what it did cost when it has ended.

Enters: the body as it is sent, the most that the answer may have, and what the engine said or the gateway counted.
Leaves: numbers of tokens. No tokenizer is asked: an estimate holds only until the engine has counted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BYTES_PER_TOKEN = 4
"""English text and code; what is denser is corrected when the engine has counted."""

MEDIA_TOKENS = 1000
"""For an image or a recording within the body, whose length in base64 says nothing about its tokens."""

MOST = 10**12
"""More than anybody means by a number of tokens, and few enough to be added up anywhere."""

_MEDIA = b'"data:'
_DATA_URL = re.compile(rb'"data:[^"]*"')


class Charge(NamedTuple):
    """The most that a call can use: tokens of the prompt, estimated, and of all answers."""

    prompt: int
    completion: int

    @property
    def tokens(self) -> int:
        """Both together."""
        return min(MOST, self.prompt + self.completion)

    def spent(self, prompt: int | None, completion: int | None) -> int:
        """Give what is charged, from the engine's count or ours; ``None`` where nobody counted.

        A prompt that nobody counted is charged as estimated, an answer that nobody counted as the most it could be.
        """
        return Charge(
            self.prompt if prompt is None else prompt, self.completion if completion is None else completion
        ).tokens


def prompt_tokens(body: bytes) -> int:
    """Estimate the tokens of a prompt from the body that holds it."""
    size = len(body)
    media = 0
    if _MEDIA in body:
        for found in _DATA_URL.finditer(body):
            size -= len(found[0])
            media += 1
    return -(-size // BYTES_PER_TOKEN) + media * MEDIA_TOKENS
