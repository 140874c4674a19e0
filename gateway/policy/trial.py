"""One request judged from end to end, without a socket: what ``check`` and ``explain`` do in place of a server.

Enters: a plane and a request whose caller is given, not proved. Leaves: ``Outcome``, the verdict and what it stands on.
The rooms are the real ones, in their order; no clock, no engine and no token is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.dialects.call import Call
from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.cache_salt import isolated
from gateway.policy.decide import admit, endpoint_for, judge
from gateway.policy.decision import Deny, Grant, Permit
from gateway.policy.plane_metadata import metadata_of, refused_question
from gateway.reasons import Malformed, Reason
from gateway.wire.target import Target

if TYPE_CHECKING:
    from gateway.identity.principal import Principal
    from gateway.identity.resource_metadata import ResourceMetadata
    from gateway.policy.model import Endpoint, Plane


@dataclass(frozen=True, slots=True)
class Request:
    """A request in the mind. ``principal``: ``None`` without a credential. ``today``: the day in UTC, as ISO text."""

    method: str
    target: bytes
    principal: Principal | None
    address: str | None
    today: str
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    ``endpoint`` and ``grant`` are set as far as the request came. ``sent`` is the body that the engine would get,
    ``None`` where the gateway answers by itself. ``metadata``: what was asked for, where it is the plane's own.
    """

    verdict: Permit | Deny
    endpoint: Endpoint | None = None
    grant: Grant | None = None
    sent: bytes | None = field(default=None, repr=False)
    metadata: ResourceMetadata | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the answer lists, as if the engines served all that the client has."""
        if self.grant is None or self.sent is not None:
            return ()
        if isinstance(self.verdict, Permit) and self.verdict.model is not None:
            return (self.verdict.model.alias,)
        return self.grant.client.models


def answer(plane: Plane, request: Request) -> Outcome:
    """Lead a request through the rooms: target, endpoint, client, body, verdict."""
    try:
        target = Target.parse(request.target)
    except Malformed as fault:
        return Outcome(Deny(fault.reason, fault.detail))
    metadata = metadata_of(plane)
    if metadata is not None and target.path == metadata.path:
        return Outcome(refused_question(request.method, target) or Permit(), metadata=metadata)
    endpoint = endpoint_for(plane, request.method, target)
    if isinstance(endpoint, Deny):
        return Outcome(endpoint)
    if request.principal is None:
        return Outcome(Deny(Reason.CREDENTIAL_MISSING), endpoint)
    grant = admit(plane, endpoint, request.principal, request.address, request.today)
    if isinstance(grant, Deny):
        return Outcome(grant, endpoint)
    try:
        return _court(plane, grant, request.body)
    except Malformed as fault:
        return Outcome(Deny(fault.reason, fault.detail, fault.param), endpoint, grant)


def _court(plane: Plane, grant: Grant, body: bytes) -> Outcome:
    """Read and judge the body, and write it as the engine would get it. Raises ``Malformed``."""
    endpoint = grant.endpoint
    if len(body) > (endpoint.body_limit or 0) and endpoint.body_limit is not None:
        raise Malformed(Reason.BODY_TOO_LARGE)
    dialect = DIALECTS.get(endpoint.dialect)
    if dialect is None and body:
        raise Malformed(Reason.BODY_MALFORMED, "this endpoint takes no body")
    call = Call({}) if dialect is None else dialect.read(body)
    verdict = judge(plane, grant, call)
    if isinstance(verdict, Deny) or dialect is None or dialect.upstream is None:
        return Outcome(verdict, endpoint, grant)
    # The real one needs the secret, and whoever reads an explanation must not have it.
    verdict = isolated(verdict, FACTS[endpoint.dialect], f"(the salt of {grant.client.name})")
    return Outcome(verdict, endpoint, grant, dialect.write(call, verdict.changes))
