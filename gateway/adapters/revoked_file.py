"""The operator's list of revoked tokens on disk: read at the start, and again whenever it changes.

Enters: the path of ``GATEWAY_REVOKED_FILE``, or none. Leaves: ``Revoked`` and a ``generation`` that grows with each
change, so that what was let in before is judged anew. A list that cannot be read leaves the last good one in force:
nobody comes back because a file was lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gateway.identity.revocation import Revoked

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 16 * 1024 * 1024

_log = structlog.get_logger("gateway.revoked")


class RevokedFileUnusable(Exception):  # noqa: N818  (says what is so)
    """The list cannot be read at the start; the text is a sentence."""


class RevokedFile:
    """The list, as it stood when it was last read well. Without a path it is empty for ever."""

    def __init__(self, path: Path | None) -> None:
        self.revoked = Revoked()
        self.generation = 0
        self._path = path
        self._octets = b""
        self._complained = ""

    def load(self) -> None:
        """Read the list for the first time. Raises ``RevokedFileUnusable``."""
        if self._path is None:
            return
        try:
            self._take(self._read(self._path))
        except (OSError, ValueError) as error:
            raise RevokedFileUnusable(f"GATEWAY_REVOKED_FILE cannot be used: {_why(error)}.") from None

    def refresh(self) -> None:
        """Read the list again and put it in force, or say once why the old one stays."""
        if self._path is None:
            return
        try:
            octets = self._read(self._path)
            if octets == self._octets:
                return
            self._take(octets)
        except (OSError, ValueError) as error:
            if (why := _why(error)) != self._complained:
                self._complained = why
                _log.error("revoked tokens not read again: the old list stays in force", why=why)
            return
        _log.info("revoked tokens read again", entries=len(self.revoked.entries))

    @staticmethod
    def _read(path: Path) -> bytes:
        with path.open("rb") as file:
            octets = file.read(MOST_BYTES + 1)
        if len(octets) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes")
        return octets

    def _take(self, octets: bytes) -> None:
        self.revoked = Revoked.parse(octets.decode())
        self.generation += 1
        self._octets = octets
        self._complained = ""


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(error.strerror) if isinstance(error, OSError) else str(error)
