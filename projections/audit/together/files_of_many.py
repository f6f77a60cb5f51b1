"""The files of many tables: those with a few files together, as each table apart has its price, the others alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from attrs import frozen

from icecore.engine.errors import IcecoreError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats import arrays
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_rows import AuditedRows, joined
from icecore.projections.audit.audited_tables import AuditedTable
from icecore.projections.entries.wide_entries import inherit_all
from icecore.projections.inspect.entry_batches import (
    ALL_CONTENTS,
    ROWS_OF_A_BATCH,
    TableEntries,
    faults_told,
    rows_key,
    with_live,
)
from icecore.projections.inspect.uniform_batch import uniform_file_rows
from icecore.projections.inspect.uniform_rows import UNIFORM_FILES, UniformColumns
from icecore.projections.segments.entry_expansion import expected_rows
from icecore.projections.segments.entry_faults import FAULTS

KIND = "uniform files"
TABLES_OF_A_BATCH, FEW_ENTRIES, FEW_MANIFESTS = 256, 2_000, 64


@frozen(eq=False)
class _Files:
    """The files of a table that are asked for: `rows` where they are made, else `entries` of each manifest."""

    entries_of: TableEntries
    listed: Sequence[ListedManifest]
    contents: frozenset[int]
    columns: UniformColumns
    entries: Sequence[tuple[ListedManifest, pa.Table]] = ()
    rows: pa.Table | None = None

    def alone(self) -> pa.Table:
        """The rows, without other tables."""
        return self.entries_of.table(KIND, UNIFORM_FILES, self.columns.file_rows, self.listed, self.contents)

    def again(self, _: Table) -> pa.Table:
        """The rows as `alone`, where the table can't be made with others."""
        return self.alone()

    def keep(self, rows: pa.Table) -> None:
        """Keeps rows that were made of it, as `alone` does."""
        of = self.entries_of
        of.planner.kept_files(of.state, rows_key(KIND, self.listed, self.contents), lambda: rows)


def files_of_many(of: AuditedRows, schema: pa.Schema, contents: frozenset[int], *, of_all: bool = False) -> pa.Table:
    """The live files of some contents of each table, of the current snapshot or all, in uniform columns."""

    def read(table: Table) -> _Files:
        return _read(TableEntries(table._planner, table.state), contents, of_all)

    def rows() -> Iterator[tuple[AuditedTable, pa.Table]]:
        waiting: list[tuple[AuditedTable, _Files]] = []
        size = 0
        for audited, found in of.each(read):
            waiting.append((audited, found))
            size += sum(t.num_rows for _, t in found.entries)
            if size >= ROWS_OF_A_BATCH or len(waiting) >= TABLES_OF_A_BATCH:
                yield from _made(of, waiting)
                waiting, size = [], 0
        yield from _made(of, waiting)

    found = list(rows())
    if contents == ALL_CONTENTS and not of_all:
        of.tables.sound.update(a.stream for a, t in found if t.num_rows <= FEW_ENTRIES)
    return joined(schema, found)


def _read(of: TableEntries, contents: frozenset[int], of_all: bool) -> _Files:
    columns = UniformColumns.of(of.state.metadata)
    listed = of.all_listed() if of_all else of.listed(None)
    found = _Files(of, listed, contents, columns)
    known = None
    with contextlib.suppress(LookupError):
        known = of.planner.kept_files(of.state, rows_key(KIND, listed, contents), _not_kept)
    if known is None and (len(listed) > FEW_MANIFESTS or sum(map(expected_rows, listed)) > FEW_ENTRIES):
        known = found.alone()
    if known is not None:
        return _Files(of, listed, contents, columns, rows=known)
    repository, state, live = of.planner.repository, of.state, with_live(listed, contents)
    with faults_told(state):
        entries = list(repository.entries.canonical_all(state.stream, live, repository.storage_of(state)))
    return _Files(of, listed, contents, columns, list(zip(live, entries, strict=True)))


def _not_kept() -> pa.Table:
    raise LookupError("nothing is kept")


def _made(of: AuditedRows, waiting: Sequence[tuple[AuditedTable, _Files]]) -> Iterator[tuple[AuditedTable, pa.Table]]:
    """The tables with their rows; those that can't be made together, as one of them is at fault, one by one."""
    together = [f for _, f in waiting if f.rows is None]
    made: Iterator[pa.Table | None] = iter([None] * len(together))
    with contextlib.suppress(IcecoreError, *FAULTS):
        made = iter(_together(together))
    for audited, found in waiting:
        rows = found.rows if found.rows is not None else next(made)
        if rows is None:
            rows = of.tables.tried(audited, found.again)
        elif found.rows is None:
            found.keep(rows)
        if rows is not None:
            yield audited, rows


def _together(tables: Sequence[_Files]) -> list[pa.Table]:
    """The rows of each table."""
    listed = [m.manifest for f in tables for m, _ in f.entries]
    parts = [t for f in tables for _, t in f.entries]
    if not parts:
        return [UNIFORM_FILES.empty_table()] * len(tables)
    sizes = [t.num_rows for t in parts]
    entries = inherit_all(pa.concat_tables(parts), listed, sizes)
    of_manifest = np.repeat(np.arange(len(tables)), [len(f.entries) for f in tables])
    of_row = np.repeat(of_manifest, sizes)
    wanted = np.isin(arrays.to_numbers(entries["content"]), sorted(tables[0].contents))
    wanted &= arrays.to_numbers(entries["status"]) != int(ManifestEntryStatus.DELETED)
    counts = np.bincount(of_row[wanted], minlength=len(tables))
    if not wanted.all():
        # To filter a piece for each manifest takes ten times as long.
        entries = entries.combine_chunks().filter(arrays.booleans(wanted))
    rows = uniform_file_rows([f.columns for f in tables], counts.tolist(), entries.combine_chunks())
    ends = np.cumsum(counts)
    # Copies: a slice would hold the rows of all for as long as one table's are kept.
    return [rows.take(np.arange(end - n, end)) for n, end in zip(counts, ends, strict=True)]
