"""Where what happened is kept: one line in the audit log and some counts in the metrics, from one record."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.adapters.audit_log import AuditLog
    from gateway.adapters.metrics import Metrics
    from gateway.audit import AuditRecord


class Journal:
    """The enforcement's ``Journal``."""

    def __init__(self, log: AuditLog, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    @property
    def ready(self) -> bool:
        """Whether the audit log takes records at the moment; without a record nothing is let through."""
        return self._log.ready

    def note(self, record: AuditRecord) -> None:
        """Keep one record."""
        self._log.write(record.to_json())
        self._metrics.observe(record)
