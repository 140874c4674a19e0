"""The smallest house that serves: the demo's policy with a key of the test's, and settings that fit it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.settings import load_settings
from tests.free_port import free_port

if TYPE_CHECKING:
    from gateway.settings import Settings

KEY = "key-of-the-tests"
POLICY = (
    (Path(__file__).parents[1] / "gateway" / "demo.yaml")
    .read_text("utf-8")
    .replace("0" * 64, sha256(KEY.encode()).hexdigest())
)
INSIDE = POLICY.replace("plane: demo", "plane: inside").replace("listener: public", "listener: inside")
CHAT = {"model": "local", "messages": [{"role": "user", "content": "hi"}]}


def environment(folder: Path, engine: str, **settings: str) -> dict[str, str]:
    """Give the variables of a gateway with one listener; ``settings`` come without their prefix."""
    return {
        "GATEWAY_POLICIES": str(folder),
        "GATEWAY_LISTENERS__PUBLIC": f"127.0.0.1:{free_port()}",
        "GATEWAY_ENGINES__MAIN__URLS": engine,
        "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
        **{f"GATEWAY_{name}": value for name, value in settings.items()},
    }


def settings_of(folder: Path, engine: str = "http://127.0.0.1:9", **more: str) -> Settings:
    """Give settings of a gateway with one listener."""
    return load_settings(environment(folder, engine, **more))


def chat(host: str, **body: object) -> bytes:
    """Write a chat by the client of the policy."""
    data = json.dumps({**CHAT, **body}).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        f"host: {host}",
        f"authorization: Bearer {KEY}",
        "content-type: application/json",
        f"content-length: {len(data)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data
