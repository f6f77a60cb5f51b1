"""The rows of `file_history` over a catalog: the files of tables with a few are made into rows together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from icecore.engine.errors import IcecoreError
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.history.needed_of_log import each_of_log, tried
from icecore.projections.audit.together.files_of_many import FEW_ENTRIES, TABLES_OF_A_BATCH
from icecore.projections.history.commit_rows import FILE_HISTORY, ChangedFiles, file_history, files_of_many
from icecore.projections.history.logged_tables import LoggedTable
from icecore.projections.inspect.entry_batches import ROWS_OF_A_BATCH
from icecore.projections.segments.entry_faults import FAULTS


def file_history_rows(of: AuditedRows) -> pa.Table:
    """The rows of `file_history`. Metrics only where the query can need them."""
    if not of.asks_for(["readable_metrics"]):
        return of.of_log(FILE_HISTORY, lambda log, table: file_history(log, table, metrics=False))
    return pa.concat_tables([FILE_HISTORY.empty_table(), *_batches(of)])


def _batches(of: AuditedRows) -> Iterator[pa.Table]:
    waiting: list[tuple[LoggedTable, Sequence[ChangedFiles]]] = []
    size = 0
    for table, found in each_of_log(of.log, of.tables, of.needed, lambda table: ChangedFiles.of(of.log, table)):
        count = sum(era.count for era in found)
        if count > FEW_ENTRIES:
            yield from _made(of, waiting)
            yield from _alone(of, table)
            waiting, size = [], 0
            continue
        waiting.append((table, found))
        size += count
        if size >= ROWS_OF_A_BATCH or len(waiting) >= TABLES_OF_A_BATCH:
            yield from _made(of, waiting)
            waiting, size = [], 0
    yield from _made(of, waiting)


def _made(of: AuditedRows, waiting: Sequence[tuple[LoggedTable, Sequence[ChangedFiles]]]) -> Iterator[pa.Table]:
    """The rows of tables; where they can't be made together, as one of them is at fault, one by one."""
    try:
        together = files_of_many([era for _, found in waiting for era in found if era.count])
    except (IcecoreError, *FAULTS):
        together = [rows for table, _ in waiting for rows in _alone(of, table)]
    yield from together


def _alone(of: AuditedRows, table: LoggedTable) -> Sequence[pa.Table]:
    return tried(of.log, of.tables, table, lambda t: file_history(of.log, t)) or ()
