"""What is answered to anybody, without a credential: the plane's metadata document, and browsers that ask beforehand.

Enters: a request line and its fields, once they are known to be sound. Leaves: a ``Notice`` to answer with, a ``Deny``,
or nothing: then the request is one that needs a caller. It reaches no engine and knows no client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.policy.decide import accepted, endpoint_for
from gateway.policy.model import Endpoint
from gateway.policy.plane_metadata import metadata_of, refused_question
from gateway.reasons import Malformed, Reason
from gateway.wire.cors import CorsRule
from gateway.wire.headers import RequestHeaders
from gateway.wire.target import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.policy.decision import Deny
    from gateway.policy.model import Plane
    from gateway.wire.field_lines import FieldLines


@dataclass(frozen=True, slots=True)
class Notice:
    """An answer to anybody.

    ``locked``: only behind the lock of the edge, where the plane has one (RFC 9728 §3.2); ``assertion`` is the key.
    """

    lines: list[bytes]
    body: bytes = b""
    locked: bool = False
    assertion: bytes | None = field(default=None, repr=False)


class Anonymous:
    """What one plane tells anybody. ``metadata``: its document (RFC 9728), if it publishes one."""

    def __init__(self, plane: Plane) -> None:
        self.metadata = metadata_of(plane)
        self._plane = plane
        self._cors = CorsRule(plane.cors_origins)

    def lines(self, origin: bytes | None) -> tuple[bytes, ...]:
        """Give what every answer to a request of this origin says: whether its page may read it."""
        return self._cors.lines(origin)

    def notice(
        self, method: str, target: Target, headers: RequestHeaders, raw: Sequence[tuple[bytes, bytes]]
    ) -> Notice | Deny | None:
        """Give the answer, if this is a request that needs no caller; ``raw`` are its fields."""
        if self.metadata is not None and target.path == self.metadata.path:
            lines = [b"content-type: application/json\r\n"]
            document = Notice(lines, self.metadata.body, locked=True, assertion=headers.access_assertion)
            return refused_question(method, target) or document
        methods = self._plane.endpoints.get(target.path) if method == "OPTIONS" else None
        if methods is None:
            return None
        preflight = self._cors.preflight(headers.origin, raw, accepted(self._plane, methods))
        return None if preflight is None else Notice(preflight)

    def found(
        self, method: str, target: Target | Malformed | None, headers: RequestHeaders, fields: FieldLines
    ) -> Endpoint | Notice | Deny:
        """Give what a request line leads to. Raises ``Malformed``: its target, where that could not be read."""
        if not isinstance(target, Target):
            raise target or Malformed(Reason.TARGET_MALFORMED)
        notice = self.notice(method, target, headers, fields.pairs())
        return endpoint_for(self._plane, method, target) if notice is None else notice

    def plain_questions(self) -> dict[tuple[str, bytes], Endpoint]:
        """Give the endpoints by method and target, where a target leads to one of them and to no notice."""
        plane, fields = self._plane, RequestHeaders("")
        found: dict[tuple[str, bytes], Endpoint] = {}
        for path, methods in plane.endpoints.items():
            target = Target.parse(path)
            for method in methods:
                endpoint = endpoint_for(plane, method, target)
                if isinstance(endpoint, Endpoint) and self.notice(method, target, fields, ()) is None:
                    found[method, path] = endpoint
        return found
