"""The source of the rows of audit tables: a catalog, its log and its tables, as far as one query can need them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from icecore.engine.table.table import Table
from icecore.projections.audit.audited_tables import NAMED, AuditedCatalog, AuditedTable, AuditedTables, Read
from icecore.projections.audit.history.logged_tables import AuditedLog, LoggedTable, rows_of_log
from icecore.projections.audit.needed_tables import NeededTables


@frozen
class AuditedRows:
    """The source of one audit table's rows: the catalog, its log, and the tables that a query can need of it.

    `asks_for` says of columns whether the query can need one of them.
    """

    catalog: AuditedCatalog
    tables: AuditedTables
    needed: NeededTables
    log: AuditedLog
    asks_for: Callable[[Collection[str]], bool] = field(default=lambda _: True)

    def each(self, read: Callable[[Table], Read]) -> Iterator[tuple[AuditedTable, Read]]:
        """The result of reading each needed table: see `AuditedTables.read`."""
        return self.tables.read(self.needed, read)

    def of(self, schema: pa.Schema, rows: Callable[[Table], Iterator[dict[str, Any]]]) -> pa.Table:
        """The rows of each table, with its name, as Arrow of a schema."""
        found: list[dict[str, Any]] = []
        for audited, own in self.each(lambda table: list(rows(table))):
            found += [{**audited.named, **row} for row in own]
        return pa.Table.from_pylist(found, schema=schema)

    def joined(self, schema: pa.Schema, read: Callable[[Table], pa.Table]) -> pa.Table:
        """The rows that `read` gives of each table, as they are in the schema after its columns of NAMED."""
        found = [schema.empty_table()]
        for audited, rows in self.each(read):
            names = [pa.repeat(pa.scalar(audited.named[f.name], f.type), rows.num_rows) for f in NAMED]
            columns = [rows[f.name].cast(f.type) for f in list(schema)[len(NAMED) :]]
            found.append(pa.table([*names, *columns], schema=schema))
        return pa.concat_tables(found)

    def of_log(self, schema: pa.Schema, rows: Callable[[AuditedLog, LoggedTable], Sequence[pa.Table]]) -> pa.Table:
        """The rows of each table that the log knows and a query can need, dropped ones too: see `rows_of_log`."""
        return rows_of_log(self.log, self.tables, self.needed, schema, lambda table: rows(self.log, table))
