"""The request target: the one reading of what the client asked for.

Enters: the raw bytes between the method and the HTTP version. Leaves: ``Target``, whose existence proves that the
path is the only spelling of itself, so that it may be compared with the constants of a policy byte by byte. Nothing
is decoded, normalised or redirected here, and no byte of a target ever travels to an engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gateway.reasons import Malformed, Reason

LONGEST_TARGET = 2048

# RFC 9112 §3.2.1   origin-form  = absolute-path [ "?" query ]
# RFC 9110 §4.1     absolute-path = 1*( "/" segment )
# RFC 3986 §3.3     segment = *pchar ;  pchar = unreserved / pct-encoded / sub-delims / ":" / "@"
# RFC 3986 §3.4     query = *( pchar / "/" / "?" )
# RFC 3986 §2.1-2.3 pct-encoded = "%" HEXDIG HEXDIG ;  unreserved = ALPHA / DIGIT / "-" / "." / "_" / "~"
#                   sub-delims = "!" / "$" / "&" / "'" / "(" / ")" / "*" / "+" / "," / ";" / "="
#
# Each strictness stops an attack that passed some proxy:
#   absolute-form, authority-form, "*"   the authority in the target overrules Host (path-060 to path-063)
#   "#"                                  one side cuts the fragment, the other compares it (CVE-2026-41059)
#   control bytes, SP                    request splitting; NUL cuts the path in C
#   bytes above 0x7E                     overlong UTF-8 and Unicode that folds to ASCII
#   "\"                                  browsers and some engines read it as "/"
#   "%" without two digits, "%u006d"     each decoder reads something else
_PCHAR = rb"A-Za-z0-9\-._~!$&'()*+,;=:@"
_ORIGIN_FORM = re.compile(
    rb"(/[%(c)b/]*(?:%%[0-9A-Fa-f]{2}[%(c)b/]*)*)(?:\?([%(c)b/?]*(?:%%[0-9A-Fa-f]{2}[%(c)b/?]*)*))?" % {b"c": _PCHAR}
)

# A valid path that some decoder, normaliser or servlet container would read as another one: encoded bytes ("%2e",
# "%2f"), empty segments, path parameters ("/..;/metrics", CVE-2026-73551) and dot segments (RFC 3986 §5.2.4,
# CVE-2019-9901).
_AMBIGUOUS = re.compile(rb"[%;]|//|/\.{1,2}(?:/|\Z)")


@dataclass(frozen=True, slots=True)
class Target:
    """An origin-form target with a canonical path. ``query`` is ``None`` without a ``?`` and empty for a bare one."""

    raw: bytes = field(repr=False)
    path: bytes
    query: bytes | None = field(repr=False)

    @classmethod
    def parse(cls, raw: bytes) -> Target:
        """Read a target. Raises ``Malformed``: ``TARGET_TOO_LONG``, ``TARGET_MALFORMED``, ``TARGET_NOT_CANONICAL``."""
        if len(raw) > LONGEST_TARGET:
            raise Malformed(Reason.TARGET_TOO_LONG)
        match = _ORIGIN_FORM.fullmatch(raw)
        if match is None:
            raise Malformed(Reason.TARGET_MALFORMED)
        path, query = match.groups()
        if _AMBIGUOUS.search(path):
            raise Malformed(Reason.TARGET_NOT_CANONICAL)
        return cls(raw, path, query)


def read_target(raw: bytes) -> Target | Malformed:
    """Read a target; one that is not canonical is a 404 like any other: the rest of the syntax and the host come first.

    Raises ``Malformed``: ``TARGET_TOO_LONG``, ``TARGET_MALFORMED``.
    """
    try:
        return Target.parse(raw)
    except Malformed as malformed:
        if malformed.reason is not Reason.TARGET_NOT_CANONICAL:
            raise
        return malformed
