"""Event streams (WHATWG HTML, "Server-sent events"): where one event ends, and what may be put between two.

Enters: the body of a ``text/event-stream`` answer, in whatever pieces it arrives. Leaves: the same bytes, cut only
behind a blank line, so that a failure never leaves a caller with half an event and a comment never lands inside one.
Content is never decoded: multi-byte characters pass as they are.
"""

from __future__ import annotations

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: parsers skip it, and proxies on the way see a stream that is alive."""

HELD_AT_MOST = 64 * 1024
"""Bytes of an unfinished event that are held back.

A longer event is passed on in pieces, so that memory stays constant.
"""


_CR = 0x0D


def end_of_last_event(data: bytes) -> int:
    """Give the offset just behind the last blank line in ``data``; 0 when it holds none.

    Lines end in LF, CRLF or CR (HTML, section 9.2.5), so a blank line is LF LF, LF CRLF or CR CR.
    """
    end = _behind(data, b"\n\n")
    if _CR in data:  # as a number: to look for bytes like this raises and forgets an error inside
        end = max(end, _behind(data, b"\n\r\n"), _behind(data, b"\r\r"))
    return end


def _behind(data: bytes, blank: bytes) -> int:
    at = data.rfind(blank)
    return at + len(blank) if at >= 0 else 0


class EventBuffer:
    """Holds back the unfinished event at the end of a stream.

    ``at_boundary`` tells whether everything that was passed on ends behind a blank line: then, and only then, may an
    event or a comment of ours follow.
    """

    __slots__ = ("_held", "_size", "_tail", "at_boundary")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._tail = b""
        self.at_boundary = True

    def feed(self, data: bytes) -> bytes:
        """Take what arrived and give what may be passed on; often all of it, sometimes nothing."""
        if not self._size and data.endswith(b"\n\n"):
            self._tail = b""
            self.at_boundary = True
            return data
        tail = self._tail
        # The blank line may lie across two pieces: its first bytes are the last two of what came before.
        cut = end_of_last_event(tail + data) - len(tail)
        self._tail = (tail + data)[-2:]
        if cut <= 0:
            return self._hold(data)
        self._held.append(data[:cut])
        passed = b"".join(self._held)
        rest = data[cut:]
        self._held = [rest] if rest else []
        self._size = len(rest)
        self.at_boundary = True
        return passed

    def _hold(self, data: bytes) -> bytes:
        if not self.at_boundary:
            return data
        self._held.append(data)
        self._size += len(data)
        if self._size <= HELD_AT_MOST:
            return b""
        passed = self.flush()
        self.at_boundary = False
        return passed

    def flush(self) -> bytes:
        """Give what is held back; for the end of a stream that ended well without a last blank line."""
        passed = b"".join(self._held)
        self._held = []
        self._size = 0
        return passed
