"""One engine of the policies: its replicas, each with connections of its own, and the choice among them.

Enters: the clients of the replicas, and each request's mark and model. Leaves: the replica that it goes to. What is
known of each replica is pure state (``engine.replica``); ``engine_watch`` keeps it true. It sends nothing itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gateway.adapters.persistent_connection import PersistentConnection
from gateway.engine.choice import choose
from gateway.engine.circuit import CLOSED
from gateway.engine.replica import Replica
from gateway.engine.vitals import UNKNOWN
from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gateway.adapters.engine_client import EngineClient
    from gateway.dialects.openai_models import ServedModel

NOBODY: tuple[EngineReplica, ...] = ()


class EngineReplica(Replica):
    """A replica with the way to it.

    ``served``: its own list of models, as it was at the last look. ``warm``: the names of those that were warmed up.
    ``missed``: looks in a row that failed. ``watched``: the connection of those looks. ``vitals``: what was known of
    its process when it was warmed up. ``examined_at``: when its metrics were asked for, in the loop's time.
    """

    __slots__ = ("client", "examined_at", "missed", "served", "vitals", "warm", "watched")

    def __init__(self, client: EngineClient) -> None:
        super().__init__(str(client.pool.address))
        self.client = client
        self.served: Mapping[str, ServedModel] = {}
        self.warm: frozenset[str] = frozenset()
        self.missed = 0
        self.watched = PersistentConnection(client)
        self.vitals = UNKNOWN
        self.examined_at = 0.0


class Engine:
    """All replicas of one engine. ``slack``: see ``engine.choice``; ``now``: the clock of the replicas' circuits."""

    def __init__(self, name: str, clients: Sequence[EngineClient], slack: int, now: Callable[[], float]) -> None:
        self.name = name
        self.replicas = [EngineReplica(client) for client in clients]
        self._slack = slack
        self._now = now

    def choose(self, mark: bytes | None, model: str, tried: Collection[EngineReplica] = NOBODY) -> EngineReplica:
        """Choose a replica for a request; one that lists the model goes before one that does not.

        Raises ``Unavailable`` when none is ready: with ``ENGINE_UNAVAILABLE`` and status 503, or with
        ``ENGINE_REFUSED_GATEWAY`` or ``ENGINE_ASLEEP`` where that is all there is to it.
        """
        replicas = self.replicas
        if len(replicas) == 1:
            if not tried and replicas[0].circuit.state is CLOSED:
                return replicas[0]
        else:
            replicas = [replica for replica in replicas if model in replica.served] or replicas
        chosen = choose(replicas, mark, self._slack, tried)
        if chosen is None:
            raise self._none_ready()
        return chosen

    def another(self, tried: Collection[EngineReplica]) -> bool:
        """Tell whether there is a ready replica besides those that were tried."""
        return any(replica.circuit.closed and replica not in tried for replica in self.replicas)

    @property
    def ready(self) -> list[EngineReplica]:
        """The replicas that take requests."""
        return [replica for replica in self.replicas if replica.circuit.closed]

    def _none_ready(self) -> Unavailable:
        whys = {replica.circuit.why for replica in self.replicas}
        if whys == {Reason.ENGINE_REFUSED_GATEWAY}:
            return Unavailable(Reason.ENGINE_REFUSED_GATEWAY)
        nearest = min(self.replicas, key=lambda replica: replica.circuit.due)
        wait_s = max(1, math.ceil(nearest.circuit.due - self._now()))
        if whys == {Reason.ENGINE_ASLEEP}:
            return Unavailable(Reason.ENGINE_ASLEEP, retry_after=wait_s)
        why = nearest.circuit.why or "all were tried"
        return Unavailable(Reason.ENGINE_UNAVAILABLE, f"none is ready: {why}", status=503, retry_after=wait_s)

    def close(self) -> None:
        """Close what is idle."""
        for replica in self.replicas:
            replica.client.pool.close()
