"""Keep what a hunt found: ``python -m tests.fuzz.keep [TARGET…]``.

Enters: the inputs in ``.fuzz/TARGET``. Leaves: in ``tests/fuzz/corpus/TARGET`` the fewest and shortest of them that,
beside the seeds that are there anyway, reach every step from line to line in the gateway that any of them reached.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz.targets import KEPT, TARGETS, seeds

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FOUND = Path(".fuzz")
_GATEWAY = str(Path("gateway").resolve())

Step = tuple[str, int, int]


def steps(target: Callable[[bytes], None], data: bytes) -> set[Step]:
    """Run one input and give each step from line to line that it took in the gateway."""
    taken: set[Step] = set()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:  # noqa: ANN401  (what sys.settrace asks for)
        if not frame.f_code.co_filename.startswith(_GATEWAY):
            return None
        if event == "line":
            taken.add((frame.f_code.co_filename, last.get(frame, 0), frame.f_lineno))
            last[frame] = frame.f_lineno
        elif event == "return":
            last.pop(frame, None)
        return trace

    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return taken


def keep(name: str) -> int:
    """Keep what is new; give how many inputs that is."""
    target, known, kept = TARGETS[name], set[Step](), 0
    for seed in seeds(name):
        known |= steps(target, seed)
    found = sorted({path.read_bytes() for path in (FOUND / name).glob("*")}, key=lambda data: (len(data), data))
    for data in found:
        new = steps(target, data) - known
        if new:
            known |= new
            kept += 1
            folder = KEPT / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / sha256(data).hexdigest()[:16]).write_bytes(data)
    return kept


def main() -> None:
    """Keep what was found for the targets named, or for all."""
    for name in sys.argv[1:] or TARGETS:
        sys.stdout.write(f"{name}: {keep(name)} kept\n")


if __name__ == "__main__":
    main()
