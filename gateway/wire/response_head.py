"""The header fields of an engine's answer that may reach the caller.

Enters: the fields as the response reader split them, names in lower case. Leaves: the few that describe the body,
checked. Everything else stays inside: framing and connection fields belong to the hop, and names of servers, cookies
and CORS grants are not the engine's to give.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# RFC 9110 §8.3.1  media-type = type "/" subtype *( OWS ";" OWS parameter ), printable ASCII and bounded
_MEDIA_TYPE = re.compile(rb"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:[ \t]*;[\t -~]{0,128})?")
# RFC 9110 §8.4.1  content-coding = token
_CODING = re.compile(rb"[A-Za-z0-9_-]{1,32}")
# RFC 9110 §10.2.3 Retry-After = HTTP-date / delay-seconds
_RETRY_AFTER = re.compile(rb"[0-9]{1,6}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")

_LONGEST = 512  # more than any of the forms can have
_ALLOWED = {
    b"content-type": _MEDIA_TYPE,
    b"content-encoding": _CODING,
    b"retry-after": _RETRY_AFTER,
}


def passing_fields(raw: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Give the fields that pass, of names in lower case; an unlisted, invalid or repeated one is left out."""
    passing: dict[bytes, bytes] = {}
    for name, value in raw:
        if name in _ALLOWED and name not in passing and len(value) <= _LONGEST and _fits(name, value):
            passing[name] = value
    return list(passing.items())


def is_event_stream(fields: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether events can be told apart in a body with these fields; in an encoded one they cannot."""
    values = dict(fields)
    media_type = values.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return media_type == b"text/event-stream" and b"content-encoding" not in values


@lru_cache(maxsize=256)  # an engine says the same in each answer
def _fits(name: bytes, value: bytes) -> bool:
    return _ALLOWED[name].fullmatch(value) is not None
