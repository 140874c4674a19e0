"""Floor 3: an engine that behaves like vLLM and needs no GPU."""
