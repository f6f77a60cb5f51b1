"""The partitions of a snapshot with their counts. The columns are those of PyIceberg's `inspect.partitions`."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.inspect.partition_statistics import (
    counted_partitions,
    partition_column,
    partition_stats_schema,
)
from icecore.projections.plan.planner import Planner
from icecore.projections.segments.entry_table import ScannedEntries

_COUNTS = {
    "record_count": ("data_record_count", pa.int64()),
    "file_count": ("data_file_count", pa.int32()),
    "total_data_file_size_in_bytes": ("total_data_file_size_in_bytes", pa.int64()),
    "position_delete_record_count": ("position_delete_record_count", pa.int64()),
    "position_delete_file_count": ("position_delete_file_count", pa.int32()),
    "equality_delete_record_count": ("equality_delete_record_count", pa.int64()),
    "equality_delete_file_count": ("equality_delete_file_count", pa.int32()),
}
_FILES = ("file_count", "position_delete_file_count", "equality_delete_file_count")


def partitions(
    planner: Planner, state: TableState, snapshot: Snapshot | None, bound: Expression, schema: Schema
) -> pa.Table:
    """A row for each partition with a live file, one in all for a table without partitions.

    A filter leaves the partitions that a scan by it would read a data file of. Deletion vectors count as position
    delete files. Rows without a filter are kept, as rows of files are. Raises CorruptFileError or StorageError where a
    manifest can't be read.
    """
    if bound != TRUE or snapshot is None:
        return _partitions(planner, state, snapshot, bound, schema)
    what = ("partitions", snapshot.snapshot_id)
    return planner.kept_files(state, what, lambda: _partitions(planner, state, snapshot, bound, schema))


def _partitions(
    planner: Planner, state: TableState, snapshot: Snapshot | None, bound: Expression, schema: Schema
) -> pa.Table:
    metadata = state.metadata
    # As in Java and PyIceberg a table with void fields only is partitioned.
    is_partitioned = any(s.fields for s in metadata.partition_specs)
    fields = [pa.field(n, kind, nullable=False) for n, (_, kind) in _COUNTS.items()]
    fields += [("last_updated_at", pa.timestamp("ms")), ("last_updated_snapshot_id", pa.int64())]
    stats_schema = partition_stats_schema(metadata)
    if is_partitioned:
        struct = schema_to_arrow(stats_schema, with_ids=False).field(0)
        fields = [struct, pa.field("spec_id", pa.int32(), nullable=False), *fields]
    wanted = pa.schema(fields)
    if snapshot is None:
        return pa.Table.from_batches([], wanted)

    def run(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
        return counted_partitions(connection, table, metadata)

    rows = planner.over_entries(state, snapshot, run)
    if not rows.num_rows:
        return pa.Table.from_batches([], wanted)
    if bound != TRUE:
        planned = planner.plan(state, snapshot, bound, schema).files
        keys = planned["partition_key"].combine_chunks() if planned.num_rows else pa.array([], pa.binary())
        rows = rows.filter(pc.is_in(rows["partition_key"], keys))
    columns = {n: rows[source] for n, (source, _) in _COUNTS.items()}
    # A vector is a position delete file of its own here, as PyIceberg counts it.
    columns["position_delete_file_count"] = pc.add(rows["position_delete_file_count"], rows["dv_count"])
    columns["last_updated_at"] = rows["last_updated_at"].cast(pa.timestamp("ms"))
    columns["last_updated_snapshot_id"] = rows["last_updated_snapshot_id"]
    if is_partitioned:
        columns["partition"] = partition_column(rows, stats_schema)
        columns["spec_id"] = rows["spec_id"]
    found = pa.table([_plain(columns[f.name], f.type) for f in wanted], schema=wanted)
    live = pc.greater(pc.add(pc.add(found[_FILES[0]], found[_FILES[1]]), found[_FILES[2]]), 0)
    return found.filter(live)


def _plain(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type.equals(kind) else array.cast(kind)
