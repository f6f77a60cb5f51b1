"""The rows of Iceberg's metadata tables over a catalog, from what `table.inspect` is made of, in uniform columns.

`snapshots`, `refs`, `manifests` and `files` have columns of our own too: see `metadata_rows` and `file_rows`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from icecore.engine.table.table import Table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.file_rows import CONTENT_NAMES, FILES, entries_of
from icecore.projections.audit.together.files_of_many import files_of_many
from icecore.projections.history.logged_tables import NAMED
from icecore.projections.inspect.entry_batches import ALL_CONTENTS, DATA, DELETES, faults_told
from icecore.projections.inspect.manifest_rows import ALL_MANIFESTS
from icecore.projections.inspect.snapshot_rows import HISTORY, METADATA_LOG_ENTRIES
from icecore.projections.inspect.uniform_rows import TEXTS, UNIFORM_ENTRIES, UniformColumns

_PARTITION = [("partition", pa.string()), ("partition_values", TEXTS), ("spec_id", pa.int32())]
_COUNTED = [
    ("record_count", pa.int64()),
    ("file_count", pa.int32()),
    ("total_data_file_size_in_bytes", pa.int64()),
    ("position_delete_record_count", pa.int64()),
    ("position_delete_file_count", pa.int32()),
    ("equality_delete_record_count", pa.int64()),
    ("equality_delete_file_count", pa.int32()),
    ("last_updated_at", pa.timestamp("ms", "UTC")),
    ("last_updated_snapshot_id", pa.int64()),
]


def _over_all(own: pa.Schema) -> pa.Schema:
    """The columns of a table's metadata table behind those that name the table; times are of UTC."""
    at = pa.timestamp("ms")
    fields = [f.with_type(pa.timestamp("ms", "UTC")) if f.type == at else f for f in own]
    return pa.schema([*NAMED, *(f.with_nullable(True) for f in fields)])


HISTORIES = _over_all(HISTORY)
METADATA_LOGS = _over_all(METADATA_LOG_ENTRIES)
MANIFESTS_OF_ALL = pa.schema(
    [pa.field("content", pa.string()) if f.name == "content" else f for f in _over_all(ALL_MANIFESTS)]
)
ENTRIES = _over_all(UNIFORM_ENTRIES)
PARTITIONS = pa.schema([*NAMED, *_PARTITION, *_COUNTED])
POSITION_DELETES = pa.schema(
    [
        *NAMED,
        ("file_path", pa.string()),
        ("pos", pa.int64()),
        *_PARTITION,
        ("delete_file_path", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
    ]
)


def history(of: AuditedRows) -> pa.Table:
    """The rows of `history`."""
    return of.joined(HISTORIES, lambda table: table.inspect.history())


def metadata_log_entries(of: AuditedRows) -> pa.Table:
    """The rows of `metadata_log_entries`."""
    return of.joined(METADATA_LOGS, lambda table: table.inspect.metadata_log_entries())


def all_manifests(of: AuditedRows) -> pa.Table:
    """The rows of `all_manifests`."""

    def read(table: Table) -> pa.Table:
        rows = table.inspect.all_manifests()
        return rows.set_column(0, "content", CONTENT_NAMES.take(rows["content"]))

    return of.joined(MANIFESTS_OF_ALL, read)


def _files(contents: frozenset[int], *, of_all: bool = False) -> Callable[[AuditedRows], pa.Table]:
    """The maker of files of some contents, of the current snapshot or all."""
    return lambda of: files_of_many(of, FILES, contents, of_all=of_all)


data_files, delete_files = _files(DATA), _files(DELETES)
all_files, all_data_files, all_delete_files = (_files(c, of_all=True) for c in (ALL_CONTENTS, DATA, DELETES))


def entries(of: AuditedRows) -> pa.Table:
    """The rows of `entries`."""
    return of.joined(ENTRIES, lambda table: _entries(table, of_all=False))


def all_entries(of: AuditedRows) -> pa.Table:
    """The rows of `all_entries`."""
    return of.joined(ENTRIES, lambda table: _entries(table, of_all=True))


def _entries(table: Table, *, of_all: bool) -> pa.Table:
    found, columns = entries_of(table), UniformColumns.of(table.metadata)
    listed = found.all_listed() if of_all else found.listed(None)
    return found.table("uniform entries", UNIFORM_ENTRIES, columns.entry_rows, listed, None)


def partitions(of: AuditedRows) -> pa.Table:
    """The rows of `partitions`; those of a table that never had partitions have an empty path and no fields."""
    return of.joined(PARTITIONS, _partitions)


def _partitions(table: Table) -> pa.Table:
    rows = table.inspect.partitions()
    if "partition" not in rows.column_names:
        spec_id = pa.repeat(pa.scalar(table.metadata.default_spec_id, pa.int32()), rows.num_rows)
        rows = rows.append_column("spec_id", spec_id)
        rows = rows.append_column("partition", pa.array([{}] * rows.num_rows, pa.struct([])))
    return _with_texts(rows, table)


def _with_texts(rows: pa.Table, table: Table) -> pa.Table:
    """The rows with the partition as a path, and its fields as text."""
    if not rows.num_rows:
        # Arrow makes no column of UUIDs inside of a struct out of nothing.
        rows = rows.drop_columns(["partition"]).append_column("partition", pa.array([], pa.string()))
        return rows.append_column("partition_values", pa.array([], TEXTS))
    spec_ids, partition = (rows[n].combine_chunks() for n in ("spec_id", "partition"))
    with faults_told(table.state):
        paths, values = UniformColumns.of(table.metadata).texts_of(spec_ids, partition)
    rows = rows.drop_columns(["partition"]).append_column("partition", paths)
    return rows.append_column("partition_values", values)


def position_deletes(of: AuditedRows) -> pa.Table:
    """The rows of `position_deletes`. The delete files are read."""
    return of.joined(POSITION_DELETES, lambda table: _with_texts(table.inspect.position_deletes(), table))
