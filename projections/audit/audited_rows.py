"""The source of the rows of audit tables: a catalog, its log and its tables, as far as one query can need them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import field, frozen

from icecore.engine.table.table import Table
from icecore.projections.audit.audited_tables import AuditedCatalog, AuditedTable, AuditedTables, Read
from icecore.projections.audit.history.needed_of_log import rows_of_log
from icecore.projections.audit.needed_tables import NeededTables
from icecore.projections.history.logged_tables import NAMED, LoggedTable, LoggedTables


@frozen
class AuditedRows:
    """The source of one audit table's rows: the catalog, its log, and the tables that a query can need of it.

    `asks_for` says of columns whether the query can need one of them.
    """

    catalog: AuditedCatalog
    tables: AuditedTables
    needed: NeededTables
    log: LoggedTables
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
        """The rows that `read` gives of each table: see `joined`."""
        return joined(schema, self.each(read))

    def of_log(self, schema: pa.Schema, rows: Callable[[LoggedTables, LoggedTable], Sequence[pa.Table]]) -> pa.Table:
        """The rows of each table that the log knows and a query can need, dropped ones too: see `rows_of_log`."""
        return rows_of_log(self.log, self.tables, self.needed, schema, lambda table: rows(self.log, table))


def joined(schema: pa.Schema, tables: Iterable[tuple[AuditedTable, pa.Table]]) -> pa.Table:
    """The rows of several tables in one schema, in which NAMED comes first; columns that a table lacks are null."""
    told = list(schema)[len(NAMED) :]
    found, named = [], []
    for audited, rows in tables:
        there = set(rows.column_names)
        own = pa.schema([f for f in told if f.name in there])
        found.append(_as(rows.select(own.names), own))
        named.append(audited.named)
    if not found:
        return schema.empty_table()
    # Names and nulls are made for all tables at once, which is cheaper than table by table.
    which = pa.array(np.repeat(np.arange(len(found)), [t.num_rows for t in found]))
    names = [pa.array([n[f.name] for n in named], f.type).take(which) for f in NAMED]
    together = pa.concat_tables(found)
    known = dict(zip(together.column_names, together.columns, strict=True))
    others = [known.get(f.name, pa.nulls(len(which), f.type)) for f in told]
    return pa.table([*names, *others], schema=schema)


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of these columns in the types of a schema."""
    return pa.table(rows.columns, schema=schema) if rows.schema.types == schema.types else rows.cast(schema)
