"""The one way in which a credential is refused.

Leaves: ``Malformed(CREDENTIAL_INVALID)``. The caller is told no more than that; the detail goes to the audit record
alone and names the check that failed, never a value.
"""

from __future__ import annotations

from gateway.reasons import Malformed, Reason


def invalid(detail: str) -> Malformed:
    """Make the refusal of a credential that was sent and does not hold."""
    return Malformed(Reason.CREDENTIAL_INVALID, detail)
