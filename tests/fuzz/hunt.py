"""Look for inputs that break a fuzz target, led by coverage: ``python -m tests.fuzz.hunt TARGET SECONDS``.

Enters: a target's name and a time. Leaves: exit status 0 and the inputs that reached new code in ``.fuzz/TARGET``, or
the input that broke a promise as ``.fuzz/TARGET-crash-…``. libFuzzer does the search (atheris), in this process.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["gateway", "tests.fuzz", "h11"]):
    from tests.fuzz.targets import KEPT, TARGETS, seeds, words

if TYPE_CHECKING:
    from collections.abc import Callable

FOUND = Path(".fuzz")
LONGEST_INPUT = 4096


def keeping(name: str, target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Give a target that writes down what broke it, before libFuzzer ends the process."""

    def fuzz(data: bytes) -> None:
        try:
            target(data)
        except BaseException:
            broken = FOUND / f"{name}-crash-{sha256(data).hexdigest()[:16]}"
            broken.write_bytes(data)
            sys.stderr.write(f"\n{broken}: {data!r}\n")
            raise

    return fuzz


def main() -> None:
    """Search."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (folder / f"seed-{number:03}").write_bytes(seed)
    dictionary = FOUND / f"{name}.dict"
    lines = ("".join(f"\\x{octet:02x}" for octet in word) for word in words(name))
    dictionary.write_text("".join(f'"{line}"\n' for line in lines), "ascii")
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}",
        f"-dict={dictionary}",
        f"-artifact_prefix={FOUND}/{name}-",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        str(folder),
    ]
    if (KEPT / name).is_dir():
        options.append(str(KEPT / name))
    atheris.Setup([sys.argv[0], *options, *sys.argv[3:]], keeping(name, TARGETS[name]))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
