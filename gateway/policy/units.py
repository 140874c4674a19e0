"""Durations and sizes: from the text of a policy file to seconds and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600}
_BYTES: Final[Mapping[str, int]] = {"KiB": 1024, "MiB": 1024 * 1024}


def seconds(text: str) -> int:
    """Read a duration such as ``30s``, ``5m`` or ``24h``, in seconds."""
    return int(text[:-1]) * _SECONDS[text[-1]]


def size(text: str) -> int:
    """Read a size such as ``512KiB`` or ``2MiB``, in bytes."""
    return int(text[:-3]) * _BYTES[text[-3:]]
