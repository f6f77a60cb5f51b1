"""Descriptions of Parquet files that were written elsewhere, so that a table can take them in as they are.

The files are read once: metrics and the partition are computed from the rows, not trusted from the footer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from icecore.engine.data.arrow.arrow_partitions import partition_batches
from icecore.engine.data.file.column_metrics import MetricsCollector
from icecore.engine.data.file.file_field import FileField, has_ids, walk_file
from icecore.engine.data.file.hive_path import HivePath
from icecore.engine.data.file.metrics_mode import metrics_modes
from icecore.engine.data.parquet.parquet_row_groups import RowGroup, read_row_groups
from icecore.engine.data.read.file_sources import open_source
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.read.table_columns import Identification
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import VariantType
from icecore.engine.storage.file_io import Storage, translated


class Describer(Protocol):
    """`describe_files`, or a function that runs it in other processes; results are in the order of the paths."""

    def __call__(
        self,
        file_paths: Sequence[str],
        /,
        *,
        schema: Schema,
        spec: PartitionSpec,
        storage: Storage,
        properties: Mapping[str, str],
        name_mapping: NameMapping,
    ) -> list[ContentFile]: ...


def describe_files(
    file_paths: Iterable[str],
    *,
    schema: Schema,
    spec: PartitionSpec,
    storage: Storage,
    properties: Mapping[str, str],
    name_mapping: NameMapping,
) -> list[ContentFile]:
    """A description of each file, of partition spec `spec`. Columns without field ids are found by the name mapping.

    An identity partition column that a file lacks is read from the file's path, as Hive lays files out. Raises
    MissingFileError, CorruptFileError, and ValidationError where a column is not in the table, has a type that does not
    fit or nulls though it is required, the rows belong to several partitions, or a partition value is neither in the
    file nor in its path.
    """
    return [_describe(p, schema, spec, storage, properties, name_mapping) for p in file_paths]


def _describe(
    path: str,
    schema: Schema,
    spec: PartitionSpec,
    storage: Storage,
    properties: Mapping[str, str],
    name_mapping: NameMapping,
) -> ContentFile:
    footer = parquet_footer(path, storage)
    size = storage.size(path)
    fields = open_source(storage, path, FileFormat.PARQUET).fields
    _check_columns(path, fields, schema, name_mapping)
    hive, present = HivePath.of(path, schema, spec), _present(path, fields, schema, name_mapping)
    hive.check_absent(present)
    given, values = hive.given(present)
    described = _file(path, given.spec_id, values, footer.num_rows, size)
    metrics = MetricsCollector(schema, metrics_modes(schema, properties))
    partition: tuple[object, ...] | None = None
    task = FileScanTask(described, (), TRUE, 0, size, 0)
    batches = read_task(
        task,
        projection=schema,
        table_schema=schema,
        specs={given.spec_id: given},
        storage=storage,
        name_mapping=name_mapping,
    )
    for batch in batches:
        rows = _allowed(pa.Table.from_batches([batch]), schema, path)
        metrics.add(rows)
        for value, _ in partition_batches(rows, spec, schema):
            if partition is not None and value != partition:
                raise ValidationError(f"{path}: its rows belong to several partitions of {spec}")
            partition = value
    if partition is None:
        raise ValidationError(f"{path}: it has no rows")
    hive.check_partition(partition)
    with storage.open_input(path) as source, translated(path, "read"):
        groups = read_row_groups(source, path)
    done = metrics.finish(_column_sizes(groups, schema, name_mapping))
    return ContentFile(
        DataFileContent.DATA,
        path,
        FileFormat.PARQUET,
        spec.spec_id,
        partition,
        done.record_count,
        size,
        column_sizes=done.column_sizes,
        value_counts=done.value_counts,
        null_value_counts=done.null_value_counts,
        nan_value_counts=done.nan_value_counts,
        lower_bounds=done.lower_bounds,
        upper_bounds=done.upper_bounds,
        split_offsets=tuple(sorted(g.start for g in groups)),
    )


def _allowed(rows: pa.Table, schema: Schema, path: str) -> pa.Table:
    """The rows. Raises ValidationError where a required field is null, as for rows that the table writes itself."""
    try:
        return conform(rows, schema)
    except ValidationError as e:
        raise ValidationError(f"{path}: {e}") from e


def _check_columns(path: str, fields: tuple[FileField, ...], schema: Schema, name_mapping: NameMapping) -> None:
    """Raises ValidationError where a column of the file can't be matched to one of the table with certainty."""
    unknown = sorted({f.name for f in fields if name_mapping.find(f.name) is None and not schema.has_name(f.name)})
    if unknown:
        raise ValidationError(f"{path}: the table has no columns {unknown}")
    check = _check_id if has_ids(fields) else _check_name
    for f in fields:
        check(path, f, schema, name_mapping)


def _check_id(path: str, column: FileField, schema: Schema, name_mapping: NameMapping) -> None:
    """Raises ValidationError for a column whose id another table may have given out."""
    current = schema.find_field(column.name).field_id if schema.has_name(column.name) else None
    mapped = name_mapping.find(column.name)
    if column.field_id is None or column.field_id not in (current, mapped and mapped.field_id):
        raise ValidationError(
            f"{path}: column {column.name!r} has the field id {column.field_id}, and the table's has {current}; was "
            f"the file written for another table?"
        )


def _check_name(path: str, column: FileField, schema: Schema, name_mapping: NameMapping) -> None:
    """Raises ValidationError for a name that the mapping gives to one field and the schema to another."""
    mapped = name_mapping.find(column.name)
    current = schema.find_field(column.name).field_id if schema.has_name(column.name) else None
    if mapped is not None and current is not None and mapped.field_id != current:
        raise ValidationError(
            f"{path}: column {column.name!r} could be field {current}, as it is called now, or {mapped.field_id}, as "
            f"the name mapping says for older files; write the file with field ids"
        )


def _file(path: str, spec_id: int, partition: tuple[object, ...], rows: int, size: int) -> ContentFile:
    return ContentFile(DataFileContent.DATA, path, FileFormat.PARQUET, spec_id, partition, rows, size)


def _present(path: str, fields: tuple[FileField, ...], schema: Schema, name_mapping: NameMapping) -> frozenset[int]:
    """The ids of the columns that the file itself has, at any depth."""
    identified = Identification(schema, name_mapping).identified(fields, _file(path, 0, (), 0, 0))
    return frozenset(f.field_id for f in walk_file(identified) if f.field_id is not None)


def parquet_footer(path: str, storage: Storage) -> pq.FileMetaData:
    """The footer of a Parquet file. Raises MissingFileError, CorruptFileError."""
    with storage.open_input(path) as source, translated(path, "read"):
        try:
            return pq.ParquetFile(source).metadata
        except (pa.ArrowInvalid, OSError) as e:
            raise CorruptFileError(f"{path} is not a Parquet file that can be read: {e}") from e


def _column_sizes(groups: tuple[RowGroup, ...], schema: Schema, name_mapping: NameMapping) -> dict[int, int]:
    """Bytes of each top-level primitive column; a variant's are those of all columns that it is shredded into.

    Other nested columns are left out, since their paths differ between writers.
    """
    sizes: dict[int, int] = {}
    for group in groups:
        for path, size in group.column_bytes:
            mapped = name_mapping.find(path[0])
            column = None if mapped is None or mapped.field_id is None else schema.get_field(mapped.field_id)
            if column is not None and (len(path) == 1 or isinstance(column.field_type, VariantType)):
                sizes[column.field_id] = sizes.get(column.field_id, 0) + size
    return sizes
