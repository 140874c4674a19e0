"""Imports run one way, and the floors below the adapters touch nothing outside."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import imported, room, sources, tree_of

if TYPE_CHECKING:
    from pathlib import Path

_FLOOR_1 = {"reasons", "wire"}
_FLOOR_2 = _FLOOR_1 | {"identity", "dialects", "limits"}
_FLOOR_3 = _FLOOR_2 | {"policy", "engine"}
_ENFORCEMENT = {"anonymous", "audit", "ports", "refusal", "gatehouse", "turnstile", "upload", "enforcement"}
_SHELL = _FLOOR_3 | _ENFORCEMENT | {"addresses", "inquiry"}
_ENVIRONMENT = {"environment", "setting_values", "settings"}
_APP = _SHELL | _ENVIRONMENT | {"adapters", "review", "simulator"}

MAY_IMPORT = {
    "reasons": set[str](),
    "wire": {"reasons"},
    "addresses": {"reasons", "wire"},
    "identity": _FLOOR_1,
    "dialects": _FLOOR_1,
    "limits": _FLOOR_1,
    "policy": _FLOOR_2,
    "engine": _FLOOR_2,
    "anonymous": _FLOOR_3,
    "audit": _FLOOR_3,
    "inquiry": _FLOOR_1,
    "ports": _FLOOR_3 | {"audit"},
    "refusal": _FLOOR_3,
    "gatehouse": _FLOOR_3 | {"ports"},
    "turnstile": _FLOOR_3 | {"ports", "refusal"},
    "upload": _FLOOR_3 | {"ports"},
    "enforcement": _FLOOR_3 | _ENFORCEMENT,
    "adapters": _SHELL,
    "review": _SHELL,
    "simulator": _SHELL,
    "environment": {"addresses"} | _FLOOR_1,
    "setting_values": {"addresses"} | _FLOOR_1,
    "settings": {"addresses"} | _FLOOR_1 | _ENVIRONMENT,
    "app": _APP,
    "server": _APP | {"app"},
    "demo": _APP | {"app", "server"},
    "doctor_ports": _APP | {"app"},
    "doctor": _APP | {"app", "doctor_ports"},
    "cli_inputs": _APP,
    "cli": _APP | {"app", "server", "demo", "doctor", "doctor_ports", "cli_inputs"},
    "__main__": {"cli"},
}

PURE = _FLOOR_3
BELOW_ADAPTERS = _SHELL

OUTSIDE = {
    "aiohttp", "fastapi", "ftplib", "http.client", "http.server", "httpcore", "httpcore2", "httpx", "httpx2", "logging",
    "multiprocessing", "os", "requests", "secrets", "selectors", "signal", "smtplib", "socket", "ssl", "starlette",
    "structlog", "subprocess", "tempfile", "threading", "time", "urllib.request", "uvicorn",
}  # fmt: skip
CLOCKS = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "loop.time",
    "asyncio.sleep", "asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for",
    "anyio.sleep", "anyio.current_time", "anyio.fail_after", "anyio.move_on_after",
}  # fmt: skip


def _within(names: set[str], forbidden: set[str]) -> set[str]:
    return {name for name in names for lead in forbidden if name == lead or name.startswith(f"{lead}.")}


def _dotted(node: ast.Attribute) -> str:
    return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else f"….{node.attr}"


@pytest.mark.parametrize("path", sources(), ids=str)
def test_a_room_imports_only_rooms_below_it(path: Path) -> None:
    here = room(path)
    assert here in MAY_IMPORT, f"{path}: no such room in the plan of the house"
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("gateway.")}
    above = rooms - MAY_IMPORT[here] - {here, "__version__"}
    assert not above, f"{path} imports {sorted(above)}; {here} may import {sorted(MAY_IMPORT[here])}"


@pytest.mark.parametrize("path", [path for path in sources() if room(path) in BELOW_ADAPTERS], ids=str)
def test_below_the_adapters_nothing_touches_the_outside(path: Path) -> None:
    """Time, keys and settings are arguments there; bytes come and go by ports."""
    found = _within(imported(path), OUTSIDE)
    assert not found, f"{path} imports {sorted(found)}"


@pytest.mark.parametrize("path", [path for path in sources() if room(path) in BELOW_ADAPTERS], ids=str)
def test_below_the_adapters_nothing_reads_a_clock(path: Path) -> None:
    found = [
        f"{path}:{node.lineno}: {_dotted(node)}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and _dotted(node) in CLOCKS
    ]
    assert not found


@pytest.mark.parametrize("path", [path for path in sources() if room(path) in PURE], ids=str)
def test_the_pure_floors_know_no_event_loop_and_wait_for_nothing(path: Path) -> None:
    assert not _within(imported(path), {"asyncio", "anyio"})
    waits = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor)]
    assert not waits, f"{path}:{waits[0].lineno}: the pure floors have nothing to await"


def test_only_the_entrance_reads_the_environment() -> None:
    readers = {room(path) for path in sources() for name in _ENVIRONMENT if f"gateway.{name}" in imported(path)}
    entrance = {"app", "server", "cli", "cli_inputs", "demo", "doctor", "doctor_ports"}
    assert readers <= entrance | _ENVIRONMENT
