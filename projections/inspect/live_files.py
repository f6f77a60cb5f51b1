"""The live files of a snapshot, one row each, for people and audits."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.errors import IcecoreError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.metadata.fold import TableState
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.content_file import DataFileContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.entries.carried_entries import live_entries
from icecore.projections.entries.partition_words import PartitionWords
from icecore.projections.entries.wide_entries import inherit_sequence_numbers
from icecore.projections.plan.planner import Planner
from icecore.projections.segments.entry_expansion import NOT_LOADED, expected_rows
from icecore.projections.segments.entry_faults import FAULTS
from icecore.projections.segments.entry_table import ScannedEntries

FILES = "plan/files.sql"
LIVE_FILES = pa.schema(
    [
        ("content", pa.string()),
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("spec_id", pa.int32()),
        ("partition", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("sequence_number", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("equality_ids", pa.list_(pa.int32())),
        ("referenced_data_file", pa.string()),
    ]
)
_CONTENTS = [c.name.lower() for c in sorted(DataFileContent)]
FEW_ENTRIES, FEW_MANIFESTS = 2_000, 16
"""Up to these numbers of entries and manifests live files are read without DuckDB, where a table has a fixed cost."""


def live_files(planner: Planner, state: TableState, snapshot: Snapshot | None) -> pa.Table:
    """The data and delete files of a snapshot, in the order of its manifests: see LIVE_FILES.

    `content` is `data`, `position_deletes` or `equality_deletes`, `partition` a path as `day=2024-01-01/city=Oslo`.
    Raises CorruptFileError or StorageError where a manifest can't be read.
    """
    if snapshot is None:
        return LIVE_FILES.empty_table()
    return planner.kept_files(state, snapshot.snapshot_id, lambda: _read(planner, state, snapshot))


def _read(planner: Planner, state: TableState, snapshot: Snapshot) -> pa.Table:
    listed = planner.list_manifests(state, snapshot)
    if len(listed) <= FEW_MANIFESTS and sum(map(expected_rows, listed)) <= FEW_ENTRIES:
        try:
            return of_manifests(planner, state, listed)
        except FAULTS as e:
            if isinstance(e, IcecoreError):
                raise
    return of_entries(planner, state, snapshot)


def of_manifests(planner: Planner, state: TableState, listed: Sequence[ListedManifest]) -> pa.Table:
    """The live files of a few manifests, from their entries as they are read, each looked at in Python."""
    manifests = [m for m in listed if m.manifest.has_live_files]
    if not manifests:
        return LIVE_FILES.empty_table()
    repository = planner.repository
    read = repository.entries.canonical_all(state.stream, manifests, repository.storage_of(state), NOT_LOADED)
    found = list(read)
    entries = inherit_sequence_numbers(
        pa.concat_tables(found), [m.manifest for m in manifests], [t.num_rows for t in found]
    )
    entries = live_entries(entries)
    columns = {n: entries[n] for n in LIVE_FILES.names if n != "partition"}
    columns["content"] = _content_names(entries["content"])
    columns["file_format"] = pc.utf8_lower(entries["file_format"])
    columns["partition"] = _decoded_paths(entries, state.metadata)
    return pa.table({n: columns[n] for n in LIVE_FILES.names}).cast(LIVE_FILES)


def _decoded_paths(entries: pa.Table, metadata: TableMetadata) -> pa.Array:
    spec_ids, partitions = entries["spec_id"].to_pylist(), entries["partition"].to_pylist()
    return pa.array(map(PartitionWords(metadata).path, spec_ids, partitions), pa.string())


def _content_names(content: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(_CONTENTS)]).take(content)


def of_entries(planner: Planner, state: TableState, snapshot: Snapshot) -> pa.Table:
    """The live files of a snapshot from its wide entries, loaded where they are not."""

    def run(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
        if not table.columns:
            return LIVE_FILES.empty_table()
        sql = query(FILES, "live_files", entries=table.name)
        files = table.scope.in_list_order(duck.arrow(connection, sql))
        content = _content_names(files["content"])
        files = files.set_column(files.schema.get_field_index("content"), "content", content)
        partition = partition_paths(connection, table, state.metadata, files["partition_key"])
        return files.append_column("partition", partition).select(LIVE_FILES.names).cast(LIVE_FILES)

    return planner.over_entries(state, snapshot, run)


def partition_paths(
    connection: duckdb.DuckDBPyConnection, table: ScannedEntries, metadata: TableMetadata, keys: pa.ChunkedArray
) -> pa.ChunkedArray:
    """The partitions of live entries as paths, by their keys; each is decoded once, however many files it has."""
    rows = duck.arrow(connection, query(FILES, "live_partitions", entries=table.name))
    paths = _decoded_paths(rows, metadata)
    return pa.chunked_array([paths]).take(pc.index_in(keys, rows["partition_key"]))
