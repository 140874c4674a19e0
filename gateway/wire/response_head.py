"""The header fields of an engine's answer that may reach the caller.

Enters: the fields as the response reader split them, by their names in lower case. Leaves: the few that describe the
body, checked, as lines of a head. Everything else stays inside: framing and connection fields belong to the hop, and
names of servers, cookies and CORS grants are not the engine's to give.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# RFC 9110 §8.3.1  media-type = type "/" subtype *( OWS ";" OWS parameter ), printable ASCII and bounded
_MEDIA_TYPE = re.compile(rb"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:[ \t]*;[\t -~]{0,128})?")
# RFC 9110 §8.4.1  content-coding = token
_CODING = re.compile(rb"[A-Za-z0-9_-]{1,32}")
# RFC 9110 §10.2.3 Retry-After = HTTP-date / delay-seconds
_RETRY_AFTER = re.compile(rb"[0-9]{1,6}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")

_OWS = b" \t"  # no part of a value (RFC 9112 §5.1)
_LONGEST = 512  # more than any of the forms can have
_ALLOWED = {
    b"content-type": _MEDIA_TYPE,
    b"content-encoding": _CODING,
    b"retry-after": _RETRY_AFTER,
}


def passing_lines(fields: Mapping[bytes, bytes]) -> tuple[bytes, ...]:
    """Give the lines of a head for the fields that pass, of names in lower case; unlisted and invalid ones do not."""
    if b"content-encoding" in fields or b"retry-after" in fields:
        return tuple(line for name in _ALLOWED for line in _line(name, fields.get(name, b"")))
    value = fields.get(b"content-type", b"")
    return _type_line(value) if len(value) <= _LONGEST else ()


def retry_after(fields: Mapping[bytes, bytes]) -> str:
    """Give when an engine says that one may try again; nothing where it does not, or not soundly."""
    value = fields.get(b"retry-after", b"").rstrip(_OWS)
    return value.decode("ascii") if _fits(b"retry-after", value) else ""


def is_event_stream(fields: Mapping[bytes, bytes]) -> bool:
    """Tell whether events can be told apart in a body with these fields; in an encoded one they cannot."""
    value = fields.get(b"content-type", b"").rstrip(_OWS)
    media_type = value.partition(b";")[0].strip().lower()
    if media_type != b"text/event-stream" or not _fits(b"content-type", value):
        return False
    return not _line(b"content-encoding", fields.get(b"content-encoding", b""))


@lru_cache(maxsize=256)  # an engine says the same in each answer
def _type_line(value: bytes) -> tuple[bytes, ...]:
    return _line(b"content-type", value)


def _line(name: bytes, value: bytes) -> tuple[bytes, ...]:
    """Give the line of a field as it passes; nothing if it does not."""
    value = value.rstrip(_OWS)
    return (b"%b: %b\r\n" % (name, value),) if _fits(name, value) else ()


def _fits(name: bytes, value: bytes) -> bool:
    return len(value) <= _LONGEST and _ALLOWED[name].fullmatch(value) is not None
