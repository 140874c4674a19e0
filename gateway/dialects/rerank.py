"""Ranking documents for a query, as vLLM serves it: ``POST /v1/rerank``."""

from __future__ import annotations

from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody

RERANK = load("rerank")


class Rerank(OpenAIBody):
    """The documents in the order in which they fit the query, each with its score."""

    name: str = "rerank"
    upstream: tuple[str, str] | None = ("POST", "/v1/rerank")
