"""A new key for a client: ``vllm-gateway key new CLIENT``.

Enters: the client's name, the last good day, random octets. Leaves: the key, shown this once, and the stanza for the
policy with its SHA-256. Nothing is stored: who loses the key makes another.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.identity import api_key

if TYPE_CHECKING:
    from datetime import date

_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key with the client that is to have it. ``not_after``: its last good day, in UTC; ``None`` for no end."""

    client: str
    key: str = field(repr=False)
    not_after: date | None = None

    @property
    def sha256(self) -> str:
        """What the policy holds of the key."""
        return api_key.sha256_of(self.key)

    @property
    def stanza(self) -> str:
        """The line for the policy file."""
        end = "" if self.not_after is None else f", not_after: {self.not_after.isoformat()}"
        return f"- {{sha256: {self.sha256}{end}}}"

    def as_text(self) -> str:
        """Give what a person reads, ends and all."""
        return (
            f"The key of client {self.client}, shown this once; hand it over on a safe way:\n\n"
            f"    {self.key}\n\n"
            f"Commit its SHA-256 to the policy, under clients.{self.client}.is and the name of your api_key caller:\n\n"
            f"        {self.stanza}\n"
        )

    def as_json(self) -> str:
        """Give what a machine reads."""
        end = None if self.not_after is None else self.not_after.isoformat()
        return json.dumps({"client": self.client, "key": self.key, "sha256": self.sha256, "not_after": end})


def new_key(client: str, random_octets: bytes, not_after: date | None = None) -> NewKey:
    """Make a key of 24 random octets for a client. Raises ``ValueError`` for what is no name of a client."""
    if _NAME.fullmatch(client) is None:
        raise ValueError("a client's name is lower-case letters, digits and '-', and begins with a letter")
    return NewKey(client, api_key.new_key(random_octets), not_after)
