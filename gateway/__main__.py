"""``python -m gateway``: the same as ``vllm-gateway``."""

from gateway.cli import main

raise SystemExit(main())
