"""The gateway's own wish to know what a stream costs.

Enters: a call and the changes that the policy makes. Leaves: the change by which the engine tells its count, if the
caller does not ask for it, and none but the last. It is no change of the policy's, so no record names it, and the
caller does not see its effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.changes import value_after
from gateway.policy.decision import Change

if TYPE_CHECKING:
    from gateway.dialects.call import Call, Dialect
    from gateway.policy.decision import Permit


_CONTINUOUS = "stream_options.continuous_usage_stats"


def usage_wish(dialect: Dialect, call: Call, permit: Permit) -> list[Change]:
    """Ask for the count of a stream whose engine does not tell it unasked; nothing, where the caller asked."""
    name = dialect.tells_usage
    if not permit.stream or name is None or value_after(call.fields, permit.changes, name) is True:
        return []
    wish = [Change("set", name, value=True)]
    if value_after(call.fields, permit.changes, _CONTINUOUS) is True:  # means nothing without what is set here
        wish.append(Change("replace", _CONTINUOUS, value=False))
    return wish
