"""The live files of a snapshot, one row each, for people and audits."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.formats.entry_arrow import decode_partition
from icecore.engine.metadata.fold import TableState
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.content_file import DataFileContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.plan.planner import Planner
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


def live_files(planner: Planner, state: TableState, snapshot: Snapshot | None) -> pa.Table:
    """The data and delete files of a snapshot, in the order of its manifests: see LIVE_FILES.

    `content` is `data`, `position_deletes` or `equality_deletes`, `partition` a path as `day=2024-01-01/city=Oslo`.
    Raises CorruptFileError or StorageError where a manifest can't be read.
    """
    if snapshot is None:
        return LIVE_FILES.empty_table()

    def run(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
        if not table.columns:
            return LIVE_FILES.empty_table()
        sql = query(FILES, "live_files", entries=table.name)
        files = table.scope.in_list_order(duck.arrow(connection, sql))
        content = pa.chunked_array([pa.array(_CONTENTS)]).take(files["content"])
        files = files.set_column(files.schema.get_field_index("content"), "content", content)
        partition = partition_paths(connection, table, state.metadata, files["partition_key"])
        return files.append_column("partition", partition).select(LIVE_FILES.names).cast(LIVE_FILES)

    return planner.over_entries(state, snapshot, run)


def partition_paths(
    connection: duckdb.DuckDBPyConnection, table: ScannedEntries, metadata: TableMetadata, keys: pa.ChunkedArray
) -> pa.ChunkedArray:
    """The partitions of live entries as paths, by their keys; each is decoded once, however many files it has."""
    rows = duck.arrow(connection, query(FILES, "live_partitions", entries=table.name))
    schema, found = metadata.all_fields, []
    for row in rows.to_pylist():
        spec = metadata.specs[row["spec_id"]]
        found.append(spec.partition_to_path(decode_partition(spec, schema, row["partition"]), schema))
    return pa.chunked_array([pa.array(found, pa.string())]).take(pc.index_in(keys, rows["partition_key"]))
