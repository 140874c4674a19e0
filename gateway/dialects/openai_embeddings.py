"""The embeddings API of OpenAI as vLLM serves it, for texts and token ids: ``POST /v1/embeddings``."""

from __future__ import annotations

from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody

EMBEDDINGS = load("openai_embeddings")


class OpenAIEmbeddings(OpenAIBody):
    """Embeddings of texts."""

    name: str = "openai-embeddings"
    upstream: tuple[str, str] | None = ("POST", "/v1/embeddings")
