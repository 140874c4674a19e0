"""What a key is, and whose: ``vllm-gateway key check``.

Enters: the text of a key, the planes of some policies, the day. Leaves: ``KeyCheck``. It tells a typing error from a
key that nobody holds, and never repeats the key: what is shown is its SHA-256, as a policy or a list of revoked keys
has it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gateway.identity import api_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gateway.policy.model import Plane


@dataclass(frozen=True, slots=True)
class Holder:
    """A client that has the key. ``state``: ``good``, ``expired`` or ``suspended``."""

    plane: str
    client: str
    not_after: str | None
    state: str


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """What was found. ``form``: ``gateway`` (made here), ``mistyped`` (its checksum is wrong) or ``foreign``."""

    form: str
    sha256: str
    holders: tuple[Holder, ...]

    @property
    def good(self) -> bool:
        """Whether somebody may come in with it."""
        return any(holder.state == "good" for holder in self.holders)

    def as_text(self) -> str:
        """Give what a person reads."""
        lines = [_FORMS[self.form], f"Its SHA-256 is {self.sha256}."]
        for holder in self.holders:
            end = "" if holder.not_after is None else f", until {holder.not_after} (UTC)"
            lines.append(f"Plane {holder.plane}: client {holder.client}{end}; it is {holder.state}.")
        if not self.holders:
            lines.append("No client of these policies has it.")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Give what a machine reads."""
        return json.dumps({**asdict(self), "good": self.good})


_FORMS = {
    "gateway": "This is a key of this gateway's form, and its checksum is right.",
    "mistyped": "This begins like a key of this gateway, and its checksum is wrong: it is mistyped or cut off.",
    "foreign": "This is not a key of this gateway's form.",
}


def check_key(key: str, planes: Iterable[Plane], today: str) -> KeyCheck:
    """Find out about a key; ``today`` is a UTC date in ISO form."""
    form = "gateway" if api_key.has_valid_checksum(key) else "foreign"
    if form == "foreign" and key.startswith(api_key.PREFIX):
        form = "mistyped"
    digest = api_key.sha256_of(key)
    return KeyCheck(form, digest, tuple(holder for plane in planes for holder in _holders(plane, digest, today)))


def _holders(plane: Plane, digest: str, today: str) -> Iterator[Holder]:
    for client in plane.clients.values():
        for key in client.keys:
            if key.sha256 == digest:
                expired = key.not_after is not None and today > key.not_after
                state = "suspended" if client.suspended else "expired" if expired else "good"
                yield Holder(plane.name, client.name, key.not_after, state)
