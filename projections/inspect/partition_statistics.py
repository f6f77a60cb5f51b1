"""Partition statistics: the files and rows of each partition of a snapshot, computed in SQL over its entries.

Spec: Partition Statistics, Partition Statistics File (MD4, MD5). As Java does, a partition is listed once for each spec
it has files of, and entries of deleted files count for the time of its last update. The number of rows after deletes
is given where metadata tells it: where there are no deletes, or deletion vectors alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.arrow_values import to_array
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.metadata.fold import TableState, metadata_folder
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import UNPARTITIONED
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import PartitionStatisticsFile, Snapshot
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.types import (
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StructType,
    UUIDType,
)
from icecore.engine.storage.file_io import Storage
from icecore.projections.plan.deletes.lost_values import losable_fields
from icecore.projections.plan.deletes.pair_statement import path_key
from icecore.projections.plan.planner import Planner
from icecore.projections.segments.entry_table import ScannedEntries

FILE = "projections/partition_stats.sql"
PARTITION_ID, DV_COUNT_ID = 1, 13
_INT64_MAX = 2**63 - 1
_AFTER_PARTITION = (
    NestedField(2, "spec_id", IntegerType(), required=True),
    NestedField(3, "data_record_count", LongType(), required=True),
    NestedField(4, "data_file_count", IntegerType(), required=True),
    NestedField(5, "total_data_file_size_in_bytes", LongType(), required=True),
    NestedField(6, "position_delete_record_count", LongType()),
    NestedField(7, "position_delete_file_count", IntegerType()),
    NestedField(8, "equality_delete_record_count", LongType()),
    NestedField(9, "equality_delete_file_count", IntegerType()),
    NestedField(10, "total_record_count", LongType()),
    NestedField(11, "last_updated_at", LongType()),
    NestedField(12, "last_updated_snapshot_id", LongType()),
)
_DV_COUNT = NestedField(DV_COUNT_ID, "dv_count", IntegerType())
_REQUIRED_IN_V3 = frozenset((6, 7, 8, 9, DV_COUNT_ID))


def unified_partition_type(metadata: TableMetadata) -> StructType:
    """A struct of all partition fields that any spec of the table ever had, by field id.

    A field has its latest name. Where two fields have one name, the one with the lower id has its id added. Raises
    ValidationError where a spec has an unknown transform, because nothing tells the type of its values.
    """
    schema = metadata.all_fields
    found: dict[int, tuple[NestedField, bool]] = {}
    for spec in sorted(metadata.partition_specs, key=lambda s: s.spec_id, reverse=True):
        if spec.has_unknown_transform:
            raise ValidationError(f"partition spec {spec.spec_id} has an unknown transform: {spec}")
        for f in spec.fields:
            is_void = isinstance(f.transform, VoidTransform)
            known = found.get(f.field_id)
            if known is None:
                found[f.field_id] = (NestedField(f.field_id, f.name, f.result_type(schema)), is_void)
            elif known[1] and not is_void:
                # A v1 spec keeps a dropped field as void: its type is that from before.
                found[f.field_id] = (evolve(known[0], field_type=f.result_type(schema)), False)
    taken: set[str] = set()
    fields = []
    for field_id in sorted(found, reverse=True):
        unified = found[field_id][0]
        name = f"{unified.name}_{field_id}" if unified.name in taken else unified.name
        taken.add(name)
        fields.append(evolve(unified, name=name))
    return StructType(tuple(reversed(fields)))


def partition_stats_schema(metadata: TableMetadata) -> Schema:
    """The schema of the table's partition statistics files, as its format version has it."""
    partition = NestedField(PARTITION_ID, "partition", unified_partition_type(metadata), required=True)
    if metadata.format_version < 3:
        return Schema((partition, *_AFTER_PARTITION))
    fields = (partition, *_AFTER_PARTITION, _DV_COUNT)
    return Schema(tuple(evolve(f, required=f.required or f.field_id in _REQUIRED_IN_V3) for f in fields))


def compute_partition_stats(planner: Planner, state: TableState, snapshot: Snapshot) -> pa.Table:
    """The partition statistics of a snapshot, sorted by partition with nulls first.

    Raises ValidationError where the table was never partitioned, CorruptFileError or StorageError where a manifest
    can't be read.
    """
    metadata = state.metadata
    if all(s.is_unpartitioned for s in metadata.partition_specs):
        raise ValidationError("the table has no partitions, and so no partition statistics")
    schema = partition_stats_schema(metadata)
    rows = planner.over_entries(state, snapshot, lambda connection, table: _with_rows_left(connection, table, metadata))
    partition = partition_column(rows, schema)
    arrow = schema_to_arrow(schema)
    columns = [partition, *(rows[f.name].combine_chunks() for f in schema.fields[1:])] if rows.num_rows else []
    if not columns:
        return pa.Table.from_batches([], arrow)
    return pa.Table.from_arrays([c.cast(t) for c, t in zip(columns, arrow.types, strict=True)], schema=arrow)


def computed_partition_stats(
    planner: Planner, state: TableState, snapshot: Snapshot
) -> tuple[PartitionStatisticsFile, bytes] | None:
    """The partition statistics of a snapshot as a new Parquet file, and its bytes; None where it has no partition.

    The file's name is random, and it is not rebuilt with metadata files: one that is lost is computed again.
    """
    table = compute_partition_stats(planner, state, snapshot)
    if not table.num_rows:
        return None
    metadata = state.metadata
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False) as writer:
        schema = partition_stats_schema(metadata).to_dict()
        writer.add_key_value_metadata({"iceberg.schema": orjson.dumps(schema).decode()})
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    folder = metadata_folder(metadata.location, metadata.properties)
    location = f"{folder}/partition-stats-{snapshot.snapshot_id}-{uuid.uuid4()}.parquet"
    return PartitionStatisticsFile(snapshot.snapshot_id, location, len(data)), data


def read_partition_stats(file: PartitionStatisticsFile, metadata: TableMetadata, storage: Storage) -> pa.Table:
    """The rows of a partition statistics file of any writer and format version, columns matched by field id.

    Names count where the file has no ids. Columns that an older file does not have are null. Raises MissingFileError,
    CorruptFileError naming the file, and ValidationError for a file of another format than Parquet, ORC or Avro.
    """
    partition = NestedField(PARTITION_ID, "partition", unified_partition_type(metadata))
    schema = Schema((partition, *(evolve(f, required=False) for f in (*_AFTER_PARTITION, _DV_COUNT))))
    ending = file.statistics_path.rsplit(".", 1)[-1].upper()
    if ending not in (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO):
        raise ValidationError(f"{file.statistics_path}: expected a Parquet, ORC or Avro file")
    # The size that metadata records may be wrong, and reading needs the real one.
    size = storage.size(file.statistics_path)
    stored = ContentFile(DataFileContent.DATA, file.statistics_path, FileFormat(ending), 0, (), 0, size)
    task = FileScanTask(stored, (), TRUE, 0, size, 0)
    batches = read_task(
        task,
        projection=schema,
        table_schema=schema,
        specs={0: UNPARTITIONED},
        storage=storage,
        name_mapping=NameMapping.of_fields(schema.fields),
    )
    return pa.Table.from_batches(list(batches), schema_to_arrow(schema, with_ids=False))


def counted_partitions(
    connection: duckdb.DuckDBPyConnection, table: ScannedEntries, metadata: TableMetadata
) -> pa.Table:
    """The counts of each partition, sorted by it (see `sql/projections/partition_stats.sql`); empty without entries."""
    return _counted(connection, table, metadata, lambda counts, _: (counts, {}))


def _with_rows_left(connection: duckdb.DuckDBPyConnection, table: ScannedEntries, metadata: TableMetadata) -> pa.Table:
    """As `counted_partitions`, with the rows that are left after deletes."""

    def stats(counts: str, order: str) -> tuple[str, Mapping[str, Any]]:
        sql = query(
            FILE,
            "partition_stats",
            counts=counts,
            entries=table.name,
            order=order,
            data_key=path_key("d.file_path"),
            named_key=path_key("v.referenced_data_file"),
        )
        unpartitioned = [s.spec_id for s in metadata.partition_specs if s.is_unpartitioned]
        return sql, {"unpartitioned": unpartitioned, "losable": list(losable_fields(metadata))}

    return _counted(connection, table, metadata, stats)


def _counted(
    connection: duckdb.DuckDBPyConnection,
    table: ScannedEntries,
    metadata: TableMetadata,
    finish: Callable[[str, str], tuple[str, Mapping[str, Any]]],
) -> pa.Table:
    """The answer to the query, with parameters, that `finish` makes of the counting query and its order of rows."""
    if not table.columns:
        return pa.table({})
    ids = [f.field_id for f in unified_partition_type(metadata).fields]
    # Not every field is one of a manifest that was loaded.
    columns = [quote(f"part_{i}") for i in ids if f"part_{i}" in table.columns]
    partition = "".join(f"any_value({c}) AS {c}, " for c in columns)
    order = "".join(f"{c} ASC NULLS FIRST, " for c in columns)
    counts = query(FILE, "partition_counts", entries=table.name, partition=partition, order=order)
    sql, parameters = finish(counts, order)
    connection.register("snapshots_of_table", _snapshots(metadata))
    try:
        return duck.arrow(connection, sql, parameters)
    finally:
        connection.unregister("snapshots_of_table")


def partition_column(rows: pa.Table, schema: Schema) -> pa.Array:
    """The partition tuples of counted rows, as the first column of statistics files has them."""
    struct = schema.fields[0].field_type
    assert isinstance(struct, StructType), "the first column of partition statistics is the partition"
    children = []
    for f in struct.fields:
        name = f"part_{f.field_id}"
        primitive = f.primitive_type
        if isinstance(primitive, DecimalType) and name in rows.column_names:
            # The bytes as they are: one may have a digit more than its type, and entries may have been typed since then
            # by a schema with a wider one.
            children.append(rows[name].combine_chunks().view(pa.decimal128(primitive.precision, primitive.scale)))
            continue
        values = rows[name].to_pylist() if name in rows.column_names else [None] * rows.num_rows
        if isinstance(primitive, UUIDType):
            values = [None if v is None else uuid.UUID(bytes=v) for v in values]
        children.append(to_array(primitive, values))
    fields = list(schema_to_arrow(schema).field(0).type)
    return pa.StructArray.from_arrays(children, fields=fields)


def _snapshots(metadata: TableMetadata) -> pa.Table:
    by_time = sorted(metadata.snapshots, key=lambda s: (s.timestamp_ms, s.sequence_number))
    # An unsigned id that no entry can hold is left out.
    rows: list[Mapping[str, Any]] = [
        {"snapshot_id": s.snapshot_id, "timestamp_ms": s.timestamp_ms, "place": i}
        for i, s in enumerate(by_time)
        if s.snapshot_id <= _INT64_MAX
    ]
    return pa.Table.from_pylist(
        rows, schema=pa.schema([(n, pa.int64()) for n in ("snapshot_id", "timestamp_ms", "place")])
    )
