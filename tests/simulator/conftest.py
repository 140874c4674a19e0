"""A running engine and a way to ask it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread
from httpx2 import AsyncClient

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import Answer, ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = "engine-key"


@dataclass(slots=True)
class Asking:
    """Asks one engine."""

    engine: EngineSimulator
    client: AsyncClient

    async def post(self, path: str, value: object, *, key: str | None = KEY) -> tuple[int, Any]:
        """Post JSON and give status and parsed answer."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        response = await self.client.post(path, json=value, headers=headers)
        return response.status_code, response.json() if response.content else None

    async def get(self, path: str) -> tuple[int, Any]:
        """Get JSON."""
        response = await self.client.get(path, headers={"authorization": f"Bearer {KEY}"})
        return response.status_code, response.json() if response.content else None

    async def events(self, path: str, value: object) -> list[str]:
        """Post JSON and give the events of the stream as they were written."""
        response = await self.client.post(path, json=value, headers={"authorization": f"Bearer {KEY}"})
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.text.endswith("\n\n")
        return response.text.removesuffix("\n\n").split("\n\n")

    async def raw(self, data: bytes) -> Answer:
        """Send bytes on a connection of their own."""
        host, _, port = self.engine.url.removeprefix("http://").partition(":")
        return await to_thread.run_sync(ask, (host, int(port)), data)


@pytest.fixture(scope="package")
async def engine() -> AsyncIterator[EngineSimulator]:
    """Run an engine with every route and a key."""
    async with EngineSimulator(api_key=KEY) as running:
        yield running


@pytest.fixture(scope="package")
async def client(engine: EngineSimulator) -> AsyncIterator[AsyncClient]:
    """Make one client for all: making one reads every certificate of the system."""
    async with AsyncClient(base_url=engine.url, trust_env=False) as one:
        yield one


@pytest.fixture
def asking(engine: EngineSimulator, client: AsyncClient) -> Asking:
    """Ask an engine that is as good as new."""
    new = EngineState()
    for one in fields(EngineState):
        setattr(engine.state, one.name, getattr(new, one.name))
    engine.requests.clear()
    return Asking(engine, client)


def hi(**fields: object) -> dict[str, object]:
    """Write the shortest chat."""
    return {"model": "local", "messages": [{"role": "user", "content": "hi"}], **fields}
