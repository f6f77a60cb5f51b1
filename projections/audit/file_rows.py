"""The rows of the audit tables about files: manifests, live files, and the tables whose files can't be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from icecore.engine.common.ids import signed
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.together.files_of_many import files_of_many
from icecore.projections.history.logged_tables import NAMED
from icecore.projections.inspect.entry_batches import ALL_CONTENTS, TableEntries
from icecore.projections.inspect.live_files import LIVE_FILES
from icecore.projections.inspect.manifest_rows import COUNT_COLUMNS, MANIFESTS_OF_TABLE
from icecore.projections.inspect.uniform_rows import UNIFORM_FILES

CONTENT_NAMES = pa.array([c.name.lower() for c in sorted(ManifestContent)])
_TOLD = ("path", "length", *COUNT_COLUMNS, "partition_summaries")
"""Columns of Iceberg's `manifests` beside our own."""
MANIFESTS = pa.schema(
    [
        *NAMED,
        ("manifest_path", pa.string()),
        ("content", pa.string()),
        ("partition_spec_id", pa.int32()),
        ("sequence_number", pa.int64()),
        ("added_snapshot_id", pa.int64()),
        ("added_files_count", pa.int64()),
        ("existing_files_count", pa.int64()),
        ("deleted_files_count", pa.int64()),
        ("added_rows_count", pa.int64()),
        ("existing_rows_count", pa.int64()),
        ("deleted_rows_count", pa.int64()),
        *(MANIFESTS_OF_TABLE.field(n).with_nullable(True) for n in _TOLD),
    ]
)


def manifests(of: AuditedRows) -> pa.Table:
    """The rows of `manifests`."""

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        told = table.inspect.manifests().select(_TOLD).to_pylist()
        for listed, row in zip(table.manifests(), told, strict=True):
            m = listed.manifest
            yield {
                **{n: getattr(m, n) for n in MANIFESTS.names[4:] if n not in ("content", *_TOLD)},
                **row,
                "content": m.content.name.lower(),
                "added_snapshot_id": signed(m.added_snapshot_id),
            }

    return of.of(MANIFESTS, rows)


FILES = pa.schema([*NAMED, *UNIFORM_FILES])
_LONG_TO_MAKE = [name for name in UNIFORM_FILES.names if name not in LIVE_FILES.names]


def files(of: AuditedRows) -> pa.Table:
    """The rows of `files`. Metrics only where the query can need them."""
    if of.asks_for(_LONG_TO_MAKE):
        return files_of_many(of, FILES, ALL_CONTENTS)
    return of.joined(FILES, lambda table: table.files())


def entries_of(table: Table) -> TableEntries:
    """The entries of a table."""
    return TableEntries(table._planner, table.state)


PROBLEMS = pa.schema([*NAMED, ("kind", pa.string()), ("message", pa.string())])


def problems(of: AuditedRows) -> pa.Table:
    """The rows of `problems`: the errors of reading the manifests and files of each table, or what else is asked."""
    for _ in of.each(
        lambda table: None if table.state.stream in of.tables.sound else (table.manifests(), table.files())
    ):
        pass
    found = [(t, e) for t, e in of.tables.problems.values() if of.needed.has(t.keys)]
    rows = [{**t.named, "kind": type(e).__name__, "message": str(e)} for t, e in found]
    return pa.Table.from_pylist(sorted(rows, key=lambda r: (r["namespace"], r["name"])), schema=PROBLEMS)
