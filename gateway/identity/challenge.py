"""The ``WWW-Authenticate`` field of a refusal (RFC 6750 §3, RFC 9110 §11.6.1).

Enters: a reason, the plane, what the endpoint needs. Leaves: the field's value, or ``None`` where the reason calls for
none. It says the same for every credential that failed: which check it was stands in the audit record alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.reasons import ANSWERS, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable


def challenge(
    reason: Reason,
    realm: str,
    scopes: Iterable[str] = (),
    resource_metadata: str | None = None,
    *,
    proofs: str = "",
    code: str = "",
) -> str | None:
    """Give the value of the field.

    ``realm``: the plane's name. ``scopes``: what the endpoint needs, named when a scope is missing.
    ``resource_metadata``: the URL of the plane's metadata document, where it has one (RFC 9728 §5.1). ``proofs``: the
    algorithms for proofs of possession on a plane that takes them, which is a scheme of its own (RFC 9449 §7.1).
    ``code``: an error that is about the proof alone.
    """
    answer = ANSWERS[reason]
    if answer.challenge is None:
        return None
    parts = [f'realm="{realm}"']
    if code or answer.challenge:
        parts += [f'error="{code or answer.challenge}"', f'error_description="{answer.sentence}"']
    if reason is Reason.SCOPE_MISSING:
        parts.append(f'scope="{" ".join(sorted(scopes))}"')
    if resource_metadata is not None:
        parts.append(f'resource_metadata="{resource_metadata}"')
    said = ", ".join(parts)
    schemes = [] if code else [f"Bearer {said}"]
    if proofs:
        schemes.append(f'DPoP {said}, algs="{proofs}"')
    return ", ".join(schemes)
