"""``python -m gateway.simulator``: an engine to try things on, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState


def arguments() -> argparse.ArgumentParser:
    """Describe the command."""
    parser = argparse.ArgumentParser(prog="python -m gateway.simulator", description="An engine without a model.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--uds", type=Path, help="a Unix socket in place of TCP")
    parser.add_argument("--api-key", help="asked for below /v1, /v2, /inference and /cohere, as by vLLM")
    parser.add_argument("--served-model-name", nargs="+", default=["local"], metavar="NAME")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS", help="before each token")
    parser.add_argument("--tokens", type=int, default=16, help="in an answer that is not cut short")
    parser.add_argument("--max-model-len", type=int, default=8192)
    parser.add_argument("--no-dev-mode", action="store_true", help="without /sleep, /collective_rpc and their like")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append every request as JSON lines")
    return parser


async def run(options: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    state = EngineState(tuple(options.served_model_name), options.latency, options.tokens, options.max_model_len)
    simulator = EngineSimulator(
        state,
        api_key=options.api_key,
        dev_mode=not options.no_dev_mode,
        host=options.host,
        port=options.port,
        uds=options.uds,
        record=options.record,
    )
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with simulator as engine:
        sys.stdout.write(f"{engine.url}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    try:
        asyncio.run(run(arguments().parse_args()))
    except OSError as error:
        sys.exit(f"python -m gateway.simulator: {error}")
