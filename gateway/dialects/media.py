"""Where media in a request may come from: out of the request itself, or from hosts that the policy names.

Enters: the text of a URL in a content part. Leaves: a phrase that says why the engine must not see it, or nothing.
vLLM fetches every http(s) URL that it is given and follows redirects, so the only spelling that passes is one that
every parser of URLs reads alike.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

KINDS = frozenset({"image_url", "audio_url", "input_audio", "input_image", "image"})
"""The types of content parts that hold media, in every API."""

TYPES = {
    "image": ("png", "jpeg", "jpg", "gif", "webp", "bmp"),
    "audio": ("wav", "x-wav", "wave", "mpeg", "mp3", "mp4", "m4a", "x-m4a", "aac", "flac", "ogg", "opus", "webm"),
}
"""The media types (RFC 6838) that pass. Decoders look at the bytes and not at this name, so what a name promises is
for the caller; those of documents, drawings and programs are none of a model's media.
"""

# RFC 2397  dataurl = "data:" [ mediatype ] [ ";base64" ] "," data
# Without parameters and in base64 alone: what vLLM decodes.
_LISTED = "|".join(f"{kind}/(?:{'|'.join(names)})" for kind, names in TYPES.items())
_DATA = re.compile(rf"data:(?:{_LISTED});base64,")

# RFC 3986 §3.2  authority = [ userinfo "@" ] host [ ":" port ]
# Here a host of letter-digit-hyphen labels, no userinfo, the default port. The last label begins with a letter, so that
# no number, dotted or not, is read as an IPv4 address; "@" and "\" before the path would make parsers disagree about
# the host; the path holds printable ASCII without "\".
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_REMOTE = re.compile(
    rf"https://((?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?)(?::443)?(?:/[!-\[\]-~]*)?", re.IGNORECASE | re.ASCII
)
_LONGEST_REMOTE = 2048


def url_fault(url: str, kind: str, hosts: AbstractSet[str]) -> str | None:
    """Say why an ``image`` or ``audio`` URL is not acceptable; ``None`` for one that is. ``hosts`` are lower case.

    A data URL is looked at up to its comma only: what follows is data for a decoder, however long.
    """
    if _DATA.match(url) is not None:
        return None if url.startswith(f"data:{kind}/") else f"must be of type {kind}/…"
    wanted = f"must be a data: URL of type {kind}/({'|'.join(TYPES[kind])}) in base64"
    if not hosts:
        return wanted
    remote = _REMOTE.fullmatch(url) if len(url) <= _LONGEST_REMOTE else None
    if remote is None or remote[1].lower() not in hosts:
        return f"{wanted}, or an https URL of a host that this policy names"
    return None


_TYPE = b'"type"'  # stands in every content part
_MENTIONS = (b'"image', b'"input_', b'"audio_url"')
TALK = ("messages", "input", "documents", "items", "queries", "query", "data_1", "data_2", "text_1", "text_2")
INNER = ("content", "output")
"""Where content parts can stand, in every API: within these members of those fields.

Not in the input or the schema of a tool: those are text to the model, whatever they look like.
"""


def payloads(body: bytes, fields: Mapping[str, Any]) -> tuple[int, int]:
    """Count the media of a call, and the bytes that they take of its body: text that only looks like them is text."""
    if body.find(_TYPE) == -1 or all(body.find(mention) == -1 for mention in _MENTIONS):  # `in` takes longer, oddly
        return 0, 0
    found = size = 0
    waiting = [fields.get(name) for name in TALK]
    while waiting:
        item = waiting.pop()
        if type(item) is list:
            waiting.extend(item)
        elif type(item) is dict:
            kind = item.get("type")
            if type(kind) is str and kind in KINDS:
                found += 1
                size += _longest(item)
            else:
                waiting.extend(item.get(name) for name in INNER)
    return found, size


def _longest(part: dict[str, Any]) -> int:
    """Give the length of the longest text in a content part, which is the URL or the data of its medium."""
    longest = 0
    for value in part.values():
        if type(value) is str:
            longest = max(longest, len(value))
        elif type(value) is dict:
            longest = max(longest, _longest(value))
    return longest


def count(value: Any) -> int:  # noqa: ANN401  (any JSON value)
    """Count the content parts with media within a value."""
    found = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is list:
            waiting.extend(item)
        elif type(item) is dict:
            kind = item.get("type")
            found += type(kind) is str and kind in KINDS
            waiting.extend(item.values())
    return found
