"""Who a verified credential speaks for.

Leaves: ``Principal``, the proof that a credential was verified. Only the verifiers of this room and the cases of a
policy make one; nothing below the gatehouse sees a token or a claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.identity.confirmation import Confirmation


class CredentialKind(StrEnum):
    """The kinds of proof that a policy can name under ``trust.callers``."""

    ACCESS_TOKEN = "access_token"  # noqa: S105  (a kind, not a secret)
    INTROSPECTION = "introspection"
    CLOUDFLARE_ACCESS = "cloudflare_access"
    API_KEY = "api_key"


@dataclass(frozen=True, slots=True)
class Principal:
    """A verified caller.

    ``caller``: name under ``trust.callers``. ``kind``: how it was proved. ``id``: the immutable id that
    ``clients.*.is`` compares with (the client claim of a token, the SHA-256 in hex of an API key). ``subject``: the
    person or service behind it (``sub``), for limits per person and the audit record; ``None`` where the credential
    names none. ``groups`` and ``scopes``: as the credential lists them. ``expires_at``: Unix time in seconds after
    which the proof is void, ``None`` for none. ``bound_to``: the key or certificate that each request must show,
    ``None`` for a bearer's credential.
    """

    caller: str
    kind: CredentialKind
    id: str
    subject: str | None = None
    groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    expires_at: float | None = None
    bound_to: Confirmation | None = None
