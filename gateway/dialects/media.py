"""Where media in a request may come from: out of the request itself, or from hosts that the policy names.

Enters: the text of a URL in a content part. Leaves: a phrase that says why the engine must not see it, or nothing.
vLLM fetches every http(s) URL that it is given and follows redirects, so the only spelling that passes is one that
every parser of URLs reads alike.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

# RFC 2397  dataurl = "data:" [ mediatype ] [ ";base64" ] "," data
# Without parameters and in base64 alone: what vLLM decodes.
_DATA = re.compile(r"data:(image|audio)/[A-Za-z0-9.+-]{1,64};base64,")

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
    match = _DATA.match(url)
    if match is not None:
        return None if match[1] == kind else f"must be of type {kind}/…"
    if not hosts:
        return f"must be a data: URL of type {kind}/… in base64"
    remote = _REMOTE.fullmatch(url) if len(url) <= _LONGEST_REMOTE else None
    if remote is None or remote[1].lower() not in hosts:
        return f"must be a data: URL of type {kind}/… in base64, or an https URL of a host that this policy names"
    return None
