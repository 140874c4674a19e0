"""What no text of a policy file may hold, because a reviewer would read something else than the gateway does.

Enters: a line of the file, or one value. Leaves: the sentence that refuses it, or nothing. Whether a value has the form
of its key is said by the document types; this room knows no keys.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_PATTERNS: Final = "patterns do not exist in this format: write each value out, whole and literal"
_NO_REFERENCES: Final = (
    "a policy holds no references to the environment: secrets, addresses and URLs are settings "
    "(GATEWAY_… in the environment), and a key stands here only as its SHA-256"
)
_NO_SECRETS: Final = "this looks like a secret: a policy holds none, and a key stands here only as its SHA-256"

# Characters that change how the text around them is shown: bidirectional controls, invisible ones (CVE-2021-42574).
_SHOWN_OTHERWISE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Co"})

_REFERENCE: Final = re.compile(r"os\.environ|\$\{", re.IGNORECASE)

# Our own keys, JSON Web Tokens, private keys in PEM.
_SECRET: Final = re.compile(
    r"\bvgw_[A-Za-z0-9_-]{16}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.|-----BEGIN [A-Z ]*PRIVATE KEY"
)

# A glob, an anchor, a repeated group or class, an escape class, an alternative in brackets, a leading negation. Ids may
# hold "|", "+", "(" and the like by themselves (auth0|5f7c, a+b@example.com), so none of these alone is one.
_PATTERN: Final = re.compile(
    r"\*|^[!^~]|(?<!\\)\$$|\.[+?]|[)\]}][+?]|\(\?|\\[dwsbDWSBAZ]|\[[^\]]*-[^\]]*\]|\([^)]*\|[^)]*\)|^/\^|\$/$"
)
_META: Final = re.compile(r"[*?\[\](){}|^$+\\!<>]")


def unfit_character(text: str, *, lines: bool = False) -> tuple[int, str] | None:
    """Find the first character that may not be shown, as its index and a sentence; ``lines`` admits line ends."""
    if text.isascii() and text.isprintable():
        return None
    for index, character in enumerate(text):
        if not _shown_otherwise(character) or (lines and character == "\n"):
            continue
        if character == "\t":
            return index, "a tab: indent and separate with spaces"
        return index, (
            f"the character U+{ord(character):04X} is not shown as what it is: remove it, or describe it in plain words"
        )
    return None


def _shown_otherwise(character: str) -> bool:
    # The last two code points of each plane are no characters, whatever their category.
    return unicodedata.category(character) in _SHOWN_OTHERWISE or ord(character) & 0xFFFE == 0xFFFE  # noqa: PLR2004


def secret(text: str) -> str | None:
    """Say why a text that is a secret, or refers to the environment for one, is refused; ``None`` for any other."""
    if _REFERENCE.search(text):
        return _NO_REFERENCES
    return _NO_SECRETS if _SECRET.search(text) else None


def looks_like_pattern(text: str) -> bool:
    """Tell whether a value that is compared literally was written as a glob, a regular expression or a negation."""
    return _PATTERN.search(text) is not None


def has_pattern_characters(text: str) -> bool:
    """Tell whether a value that already missed its form holds a character that only patterns use."""
    return _META.search(text) is not None


def nearest(word: str, words: Iterable[str]) -> str:
    """Give the word that a misspelt or abbreviated one was most likely meant to be."""

    def likeness(candidate: str) -> float:
        initials = "".join(part[:1] for part in candidate.split("_"))
        return max(SequenceMatcher(None, word.lower(), spelling).ratio() for spelling in (candidate, initials))

    return max(words, key=likeness)
