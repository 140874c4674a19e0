"""What each engine serves, as its replicas said at the last look.

Enters: the engines, whose watch asks every two seconds. Leaves: the models of each by the names it serves: of several
replicas, what any of them that takes requests lists. Nothing is asked here, so no caller waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.adapters.engine import Engine
    from gateway.dialects.openai_models import ServedModel


class EngineCatalogue:
    """The enforcement's ``Catalogue``, for all engines."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    async def served(self, engine: str) -> Mapping[str, ServedModel]:
        """Give the models of an engine by the names it serves. Raises ``Unavailable`` as ``Engine.choose`` does."""
        one = self._engines[engine]
        one.choose(None, "")
        return {name: model for replica in one.ready for name, model in replica.served.items()}
