"""Reports of clients on their scans and commits, in a file of their own beside the log; the oldest are dropped.

They are no part of the log: no report is verified, replayed, cloned or needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from attrs import asdict, frozen

from icecore.engine.common.stored_json import stored_json
from icecore.engine.log.reader import LAST_POSITION
from icecore.engine.log.sqlite_file import SETTINGS, SqliteFile, run_script
from icecore.engine.queries.named_queries import query

REPORTS = "log/client_reports.sql"
REPORTS_FILE = "icecore.reports.db"
MOST_KEPT, MOST_KEPT_BYTES = 10_000, 64 * 2**20
LOCK_TIMEOUT_S = 5.0
ReportKind = Literal["scan-report", "commit-report"]


@frozen
class ClientReport:
    """A report on a table, by its stream, as JSON; `position` is the log's last one when it came."""

    kind: ReportKind
    stream: str
    position: int
    received_at_ms: int
    actor: str | None
    engine: str | None
    report: str

    @property
    def content(self) -> dict[str, Any]:
        """The words of the client. Raises CorruptLogError."""
        found: dict[str, Any] = stored_json(self.report, dict, "a client's report")
        return found


class ClientReports:
    """The reports that are kept beside a log."""

    def __init__(self, log: str | os.PathLike[str]) -> None:
        self.path = Path(log).with_name(REPORTS_FILE)

    def put(self, reports: Sequence[ClientReport]) -> None:
        """Stores reports, and lets the oldest ones go. Raises StorageError, WarehouseLockedError."""
        with closing(self._open(read_only=False)) as file, file.transaction():
            run_script(file.connection(), query(REPORTS, "schema"))
            for report in reports:
                file.execute(REPORTS, "put", **asdict(report), size=len(report.report.encode()))
            file.execute(REPORTS, "drop_oldest", most=MOST_KEPT, most_bytes=MOST_KEPT_BYTES)

    def of_kind(self, kind: ReportKind, up_to: int | None = None) -> Iterator[ClientReport]:
        """The reports of a kind that came up to a position, oldest first. Raises StorageError, CorruptLogError."""
        if self.path.exists():
            with closing(self._open(read_only=True)) as file:
                limit = LAST_POSITION if up_to is None else up_to
                for row in file.rows(REPORTS, "of_kind", kind=kind, up_to=limit):
                    yield ClientReport(kind=kind, **row)

    def forget(self, text: str) -> None:
        """Drops the reports with a text, so that nothing of them is left in the file. Raises StorageError."""
        if self.path.exists():
            with closing(self._open(read_only=False)) as file:
                file.execute(SETTINGS, "securely")
                file.execute(REPORTS, "forget", text=text)
                file.execute(SETTINGS, "empty_wal").fetchall()

    def _open(self, *, read_only: bool) -> _ReportsFile:
        return _ReportsFile(self.path, create=True, read_only=read_only, lock_timeout_s=LOCK_TIMEOUT_S, durable=False)


class _ReportsFile(SqliteFile):
    def transaction(self) -> Any:
        """A write transaction."""
        return self._locked()
