"""Fuzz targets for what is written about requests: audit records and operational log lines.

Enters: any bytes, as the texts of a record or an event. Leaves: nothing, or an ``AssertionError``.
"""

from __future__ import annotations

import io
import json
import logging
from typing import Any

from gateway.adapters import logs
from gateway.audit import LONGEST_TEXT, AuditRecord, Outcome, Verdict
from gateway.reasons import Reason

LONGEST_LINE = 256 * 1024
_KEYS = set(json.loads(AuditRecord(0.0, "").to_json()))


def fuzz_audit(data: bytes) -> None:
    """Whatever is recorded is one line of ASCII that is valid JSON, and keeps to its fields."""
    texts = [part.decode("utf-8", "surrogatepass" if data[:1] < b"\x80" else "replace") for part in _parts(data)]
    record = AuditRecord(1_800_000_000.0, "0" * 32, peer="127.0.0.1", target=data, verdict=Verdict.DENY)
    record.method, record.subject, record.model, record.detail, record.client = (texts * 5)[:5]
    record.changes = (*texts,) * 9
    record.reason, record.outcome = Reason.INTERNAL, Outcome.OK
    line = record.to_json()
    assert len(line) <= LONGEST_LINE
    assert line.isascii()
    assert not set(range(0x20)) & set(line)
    assert 0x7F not in line
    read: dict[str, Any] = json.loads(line)
    assert read.keys() == _KEYS
    assert (read["id"], read["peer"], read["verdict"], read["reason"]) == ("0" * 32, "127.0.0.1", "deny", "internal")
    assert len(read["target"]) <= LONGEST_TEXT
    assert b"?" not in data or read["target"].endswith(("?", "[left out]")) or b"#" in data.partition(b"?")[0]
    for name in ("method", "subject", "model", "detail"):
        assert len(read[name]) <= LONGEST_TEXT


def _parts(data: bytes) -> list[bytes]:
    """Cut at NUL; what is no UTF-8 keeps only what is, so that lone surrogates can still be written as they are."""
    parts = []
    for part in data[1:].split(b"\0"):
        try:
            part.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            parts.append(part.decode("latin-1").encode())
        else:
            parts.append(part)
    return parts


def fuzz_log(data: bytes) -> None:
    """Whatever a library or a bug says is one line of JSON, and the text of an exception is not in it."""
    text = data.decode("utf-8", "surrogateescape")
    stream = io.StringIO()
    with logs.configured("info", stream):
        error = ValueError("not in the line " + text)
        logging.getLogger("uvicorn.error").error(text or "nothing", exc_info=error)
    (line,) = stream.getvalue().split("\n")[:-1]
    assert line.isascii()
    assert line.isprintable()
    read = json.loads(line)
    assert read["logger"] == "uvicorn.error"
    assert read["exception"] == "ValueError"
    assert "not in the line" not in line
