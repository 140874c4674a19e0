"""The policy files on disk: found, read, compiled as a set, and looked at again.

Enters: the paths of the settings. Leaves: one ``Plane`` for each file, or a ``PolicyError`` with every problem. A
change is noticed by content, not by date: whoever replaces a file by a link or with an old date is seen all the same.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from gateway.policy.compile import compile_planes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway.policy.model import Plane


class PolicyFilesMissing(Exception):  # noqa: N818  (says what is so)
    """A path of ``GATEWAY_POLICIES`` leads to no policy file; the text is a sentence."""


class PolicyFiles:
    """The files behind ``GATEWAY_POLICIES``."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.texts: dict[str, str] = {}
        """What was read last, by name of the file, whether it compiles or not."""
        self._paths = paths
        self._seen = b""

    def load(self) -> list[Plane]:
        """Read and compile all files. Raises ``PolicyError``, ``PolicyFilesMissing``."""
        self.texts = texts = self._read()
        self._seen = _digest(texts)
        return compile_planes(texts)

    def changed(self) -> bool:
        """Tell whether the files differ from what was loaded last; files that cannot be read at the moment do not."""
        try:
            return _digest(self._read()) != self._seen
        except PolicyFilesMissing:
            return False

    def _read(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path in self._paths:
            file = path
            try:
                for file in found(path):
                    texts[str(file)] = file.read_bytes().decode()  # as it is: the digest names the file's bytes
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise PolicyFilesMissing(f"{file} cannot be read: {why}.") from None
        return texts


def found(path: Path) -> list[Path]:
    """Give the policy files of a path: the file itself, or the ``*.yaml`` directly inside a folder.

    Raises ``PolicyFilesMissing``.
    """
    if path.is_dir():
        files = sorted(file for file in path.glob("*.yaml") if file.is_file())
        if not files:
            raise PolicyFilesMissing(f"{path} holds no *.yaml file.")
        return files
    if not path.is_file():
        raise PolicyFilesMissing(f"{path} does not exist.")
    return [path]


def _digest(texts: dict[str, str]) -> bytes:
    digest = sha256()
    for name, text in texts.items():
        digest.update(f"{name}\0{len(text)}\0{text}".encode())
    return digest.digest()
