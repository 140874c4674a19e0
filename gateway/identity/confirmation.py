"""What a token is bound to, and whether a request shows it (RFC 7800 §3).

Enters: the claims of a token, signed or told by its issuer, and what the policy asks of whoever brings it; then what
the request shows. Leaves: a ``Confirmation``, ``None`` for a bearer's token, or ``Malformed(CREDENTIAL_INVALID)``. A
token that is bound to something is nobody's without it, and to two things or unknown ones: nobody's at all.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

DPOP: Final = "dpop"
MTLS: Final = "mtls"

# RFC 9449 §6.1, RFC 8705 §3.1
_MEMBERS: Final[Mapping[str, str]] = {DPOP: "jkt", MTLS: "x5t#S256"}


class Confirmation(NamedTuple):
    """What must be shown: ``sender`` as the policy writes it, and the thumbprint of a key or of a certificate."""

    sender: str
    thumbprint: str

    def fits(self, shown: str | None) -> bool:
        """Tell whether this very thing was shown; in the same time, however much of it is right."""
        return shown is not None and hmac.compare_digest(self.thumbprint.encode(errors="replace"), shown.encode())


def read(told: Mapping[str, Any], sender: str | None) -> Confirmation | None:
    """Give what a token is bound to. ``sender``: what the policy asks for. Raises ``Malformed(CREDENTIAL_INVALID)``."""
    if sender is None:
        check_unbound(told)
        return None
    bound, member = told.get("cnf"), _MEMBERS[sender]
    if type(bound) is not dict or bound.keys() != {member} or type(bound[member]) is not str:
        raise invalid(f"the token is not bound as the policy asks: to cnf.{member} and nothing else")
    return Confirmation(sender, bound[member])


def check_unbound(told: Mapping[str, Any]) -> None:
    """Refuse a bound token where the policy asks for no proof: who steals one must not be able to use it without.

    RFC 9449 §7.1-7.2, RFC 8705 §3.
    """
    if "cnf" in told:
        raise invalid("the token is bound to a key (cnf) and came without proof of it")


def certificate_thumbprint(certificate: bytes) -> str:
    """Give the ``x5t#S256`` of a certificate in DER (RFC 8705 §3.1)."""
    return urlsafe_b64encode(sha256(certificate).digest()).rstrip(b"=").decode()
