from __future__ import annotations

import pytest

from gateway.policy.units import seconds, size


@pytest.mark.parametrize("text, expected", [("30s", 30), ("5m", 300), ("24h", 86400), ("0s", 0)])
def test_durations_are_seconds(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text, expected", [("1KiB", 1024), ("512KiB", 524288), ("2MiB", 2097152)])
def test_sizes_are_bytes(text: str, expected: int) -> None:
    assert size(text) == expected
