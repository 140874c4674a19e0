"""The answer that a plane gives about itself, and who gets it (RFC 9728 §3).

Enters: a plane; then the method and target of a request for the metadata's path. Leaves: the metadata, constants of
the policy, or a ``Deny`` for whatever is no plain question. Nobody needs a credential to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.identity.resource_metadata import ResourceMetadata
from gateway.policy.decision import Deny
from gateway.reasons import Reason

if TYPE_CHECKING:
    from gateway.policy.model import Plane
    from gateway.wire.target import Target


def metadata_of(plane: Plane) -> ResourceMetadata | None:
    """Describe a plane, if its policy says that it may be described."""
    if plane.resource is None:
        return None
    needs = {scope for methods in plane.endpoints.values() for endpoint in methods.values() for scope in endpoint.needs}
    return ResourceMetadata.of(plane.resource, plane.callers.values(), needs, plane.name)


def refused_question(method: str, target: Target) -> Deny | None:
    """Refuse anything but GET without a query."""
    if method != "GET":
        return Deny(Reason.METHOD_NOT_ALLOWED, "GET")
    return None if target.query is None else Deny(Reason.QUERY_NOT_ACCEPTED)
