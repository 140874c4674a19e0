"""vllm-gateway: the only exposed origin in front of vLLM."""

__version__ = "0.1.0"
