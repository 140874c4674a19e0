"""The gateway's command, in a process that tells on SIGUSR1 what is alive in it.

Enters: the command's arguments. Leaves: on each signal one line of JSON in the file that ``WATCHED_FILE`` names: how
many tasks are pending and how many objects of each kind that belongs to a connection or a request there are. What is
kept to watch over engines is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from gateway.adapters.downstream import Downstream
from gateway.adapters.edge import EdgeProtocol
from gateway.adapters.engine_pool import EngineConnection
from gateway.adapters.exchange import Exchange
from gateway.adapters.persistent_connection import PersistentConnection
from gateway.audit import AuditRecord
from gateway.cli import main

KINDS = (EdgeProtocol, Downstream, Exchange, EngineConnection, AuditRecord)


def tell(*_: object) -> None:
    """Write down what is alive."""
    gc.collect()
    objects = gc.get_objects()
    alive = Counter({kind.__name__: 0 for kind in KINDS})
    alive.update(type(one).__name__ for one in objects if isinstance(one, KINDS) and not _watches(one))
    alive["tasks"] = sum(isinstance(one, asyncio.Task) and not one.done() for one in objects)
    del objects
    with Path(os.environ["WATCHED_FILE"]).open("a", encoding="ascii") as told:
        told.write(json.dumps(alive) + "\n")


def _watches(one: object) -> bool:
    return isinstance(one, EngineConnection) and isinstance(one.receiver, PersistentConnection)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, tell)
    sys.exit(main())
