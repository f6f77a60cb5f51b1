"""The tables of a log that a query can need, and the rows of those that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from icecore.engine.errors import IcecoreError
from icecore.engine.events.event import is_view_stream
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_tables import AuditedTable, AuditedTables, Read
from icecore.projections.audit.needed_tables import NeededTables
from icecore.projections.history.logged_tables import LoggedTable, LoggedTables, names_of


def needed_streams(log: LoggedTables, needed: NeededTables) -> list[str]:
    """The tables and views that a query can need by a name that they ever had."""
    return [s for s, t in log.named.items() if _has(needed, t)]


def each_of_log(
    log: LoggedTables, tables: AuditedTables, needed: NeededTables, read: Callable[[LoggedTable], Read]
) -> Iterator[tuple[LoggedTable, Read]]:
    """The result of reading each needed table; one whose events can't be read is a problem, and left out.

    Raises QueryLimitError.
    """
    for table in (log.named[s] for s in needed_streams(log, needed) if not is_view_stream(s)):
        tables.deadline.check()
        if table.stream not in tables.passed_over and (found := tried(log, tables, table, read)) is not None:
            yield table, found


def tried(
    log: LoggedTables, tables: AuditedTables, table: LoggedTable, read: Callable[[LoggedTable], Read]
) -> Read | None:
    """The result of reading one table; None where its events can't be read, which is a problem."""
    try:
        return read(table)
    except IcecoreError as e:
        tables.problems.setdefault(table.stream, (_audited(table, log.position), e))
        return None


def rows_of_log(
    log: LoggedTables,
    tables: AuditedTables,
    needed: NeededTables,
    schema: pa.Schema,
    rows: Callable[[LoggedTable], Sequence[pa.Table]],
) -> pa.Table:
    """The rows of each needed table: see `each_of_log`."""
    found = [schema.empty_table()]
    for _, of_table in each_of_log(log, tables, needed, rows):
        found += of_table
    return pa.concat_tables(found)


def _audited(table: LoggedTable, position: int) -> AuditedTable:
    """The table as the SQL prompt tells of it."""

    def load() -> Table:
        raise NotImplementedError("what is told of a log is read from its events")

    return AuditedTable(table.identifier_at(position), table.stream, load, table.identifier_now)


def _has(needed: NeededTables, table: LoggedTable) -> bool:
    names = (n for _, n in table.names if n is not None)
    uuid = table.table_uuid.lower()
    return any(needed.has(names_of(n, uuid, table.identifier_now)) for n in names)
