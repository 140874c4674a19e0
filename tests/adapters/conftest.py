"""Adapters are tested on the event loop of production, and leave nothing behind on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Run coroutines of tests on uvloop."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Fail a test that leaves a task behind; anyio itself has as many before as after."""
    before = len(asyncio.all_tasks())
    yield
    for _ in range(200):
        if len(asyncio.all_tasks()) <= before:
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"left behind: {asyncio.all_tasks()}")
