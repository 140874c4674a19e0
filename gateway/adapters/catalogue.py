"""What each engine serves, asked of the engine itself.

Enters: the engines' clients. Leaves: the models of each by the names it serves, at most five seconds old. Concurrent
questions to one engine share one answer; a failure is not kept, so an engine that is back is seen at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.dialects.openai_models import served_models
from gateway.reasons import Malformed, Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.adapters.engine_client import EngineClient
    from gateway.dialects.openai_models import ServedModel

FRESH_S = 5.0
"""Seconds for which an answer is believed."""

ASKED_S = 5.0
"""Seconds that an engine has to answer."""

_OK = 200
_REFUSED = (401, 403)


class EngineCatalogue:
    """The enforcement's ``Catalogue``, for all engines."""

    def __init__(self, clients: Mapping[str, EngineClient]) -> None:
        self._clients = clients
        self._known: dict[str, tuple[float, Mapping[str, ServedModel]]] = {}
        self._asking: dict[str, asyncio.Task[Mapping[str, ServedModel]]] = {}

    async def served(self, engine: str) -> Mapping[str, ServedModel]:
        """Give the models of an engine by the names it serves.

        Raises ``Unavailable`` as ``EngineClient.fetch`` does.
        """
        loop = asyncio.get_running_loop()
        asked_at, models = self._known.get(engine, (0.0, None))
        if models is not None and loop.time() - asked_at < FRESH_S:
            return models
        task = self._asking.get(engine)
        if task is None:
            task = self._asking[engine] = loop.create_task(self._ask(engine))
            task.add_done_callback(lambda _: self._asking.pop(engine, None))
        return await asyncio.shield(task)

    async def _ask(self, engine: str) -> Mapping[str, ServedModel]:
        status, body = await self._clients[engine].fetch("GET", "/v1/models", timeout_s=ASKED_S)
        if status in _REFUSED:
            raise Unavailable(Reason.ENGINE_REFUSED_GATEWAY)
        if status != _OK:
            raise Unavailable(Reason.ENGINE_ERROR, f"status {status}")
        try:
            models = served_models(body)
        except Malformed as malformed:
            raise Unavailable(malformed.reason, malformed.detail) from None
        self._known[engine] = (asyncio.get_running_loop().time(), models)
        return models
