"""Writes of one turn of the event loop that go out together, at its end.

Enters: transports, and what is to be written to them. Leaves: the writes, in their order. To write to a socket wakes
the process at its other end if that sleeps, which costs more than the write; whoever is still awake from the write
before costs nothing. So what nobody needs within the turn waits until all that arrived was looked at, or a few others
wait as well. Whoever writes past it to the same transport, or closes that, calls ``flush`` before.
"""

from __future__ import annotations

import asyncio

TOGETHER = 32
"""Writes that go out before the turn ends: more of them would leave an engine without work."""


class Outbox:
    """The writes that wait, of one event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []

    def write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Have this written before the next turn begins."""
        waiting = self._waiting
        waiting.append((transport, data))
        if len(waiting) == 1:
            asyncio.get_running_loop().call_soon(self.flush)
        elif len(waiting) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write what waits; what was for a connection that is closing by now is for nobody."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for transport, data in waiting:
            if not transport.is_closing():
                transport.write(data)
