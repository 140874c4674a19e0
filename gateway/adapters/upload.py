"""Sending the file of a judged form to its engine, piece by piece, as fast as the engine takes it.

Enters: an ``Upload`` and the engine's connection, on which the head and the beginning of the form were written. Leaves:
the rest of the form. It stops as soon as the connection belongs to no exchange any more: the engine answered early, the
client left, or time ran out. A connection on which a form stayed unfinished is never used again.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.adapters.engine_pool import EngineConnection
    from gateway.ports import Upload


async def send(upload: Upload, connection: EngineConnection) -> None:
    """Write the file and what stands behind it. Raises ``Unavailable(SPOOL_UNAVAILABLE)``."""
    connection.sending = True
    async with aclosing(upload.file.pieces()) as pieces:
        async for piece in pieces:
            if connection.receiver is None:
                return
            connection.transport.write(piece)
            await connection.drained()
    if connection.receiver is not None:
        connection.transport.write(upload.tail)
        connection.sending = False
