"""The shipped partner policy, for clients that are too large for the environment of all other tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.e2e.partners import Partners, shipped

if TYPE_CHECKING:
    from collections.abc import Iterator

# LiteLLM would fetch its table of prices from elsewhere when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


@pytest.fixture(scope="session")
def partners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partners]:
    """Run gateway, engine and issuer."""
    with shipped(tmp_path_factory.mktemp("partners"), {}) as running:
        yield running
