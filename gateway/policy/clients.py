"""The clients of a plane, found by what proves them: two look-ups, whatever their number.

Enters: the resolved clients. Leaves: ``ClientIndex``. An entry that two clients share stays visible as two, so that
the gatehouse can refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.policy.model import Client, Key


@dataclass(frozen=True, slots=True)
class ClientIndex:
    """Clients by (caller, id), by caller and group, and by (caller, SHA-256 of a key)."""

    ids: Mapping[tuple[str, str], tuple[Client, ...]]
    groups: Mapping[str, Mapping[str, tuple[Client, ...]]]
    keys: Mapping[tuple[str, str], tuple[tuple[Client, Key], ...]]

    @classmethod
    def of(cls, clients: Iterable[Client]) -> ClientIndex:
        """Index the clients of one plane."""
        ids: dict[tuple[str, str], tuple[Client, ...]] = {}
        groups: dict[str, dict[str, tuple[Client, ...]]] = {}
        keys: dict[tuple[str, str], tuple[tuple[Client, Key], ...]] = {}
        for client in clients:
            if client.id is not None:
                place = (client.caller, client.id)
                ids[place] = (*ids.get(place, ()), client)
            if client.group is not None:
                members = groups.setdefault(client.caller, {})
                members[client.group] = (*members.get(client.group, ()), client)
            for key in client.keys:
                place = (client.caller, key.sha256)
                keys[place] = (*keys.get(place, ()), (client, key))
        return cls(ids, groups, keys)
