"""One record becomes one line and some counts."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from gateway.adapters.audit_log import READY_UP_TO, AuditLog
from gateway.adapters.journal import Journal
from gateway.adapters.metrics import Metrics
from gateway.audit import AuditRecord, Verdict
from gateway.reasons import Reason

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_record_is_one_line_in_the_log_and_one_decision_in_the_metrics(tmp_path: Path) -> None:
    log, metrics = AuditLog.open(str(tmp_path / "audit")), Metrics()
    journal = Journal(log, metrics)
    assert journal.ready
    record = AuditRecord(0.0, "ab" * 16, "public")
    record.verdict, record.reason = Verdict.DENY, Reason.NO_SUCH_ENDPOINT
    journal.note(record)
    await asyncio.sleep(0)
    log.close()
    (line,) = (tmp_path / "audit").read_bytes().splitlines()
    assert json.loads(line)["id"] == "ab" * 16
    rendered = metrics.render().decode()
    assert 'plane="public",reason="no-such-endpoint",verdict="deny"} 1.0' in rendered


async def test_a_journal_is_as_ready_as_its_log(tmp_path: Path) -> None:
    log = AuditLog.open(str(tmp_path / "audit"))
    journal = Journal(log, Metrics())
    ready = [journal.ready]
    log.write(b"x" * READY_UP_TO)
    ready.append(journal.ready)
    await asyncio.sleep(0)
    ready.append(journal.ready)
    log.close()
    assert ready == [True, False, True]
