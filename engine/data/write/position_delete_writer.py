"""The writers of position and equality delete files.

Spec: Position Delete Files (D1, D3, SO2), Equality Delete Files (D4). v1 tables have no delete files, and v3 tables
take deletion vectors instead of new position delete files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyroaring
from attrs import evolve, field, frozen

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.file.metrics_mode import Full, metrics_modes
from icecore.engine.data.read.deletion_vector import Positions, bitmap_of
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.data_file_writer import DataFileWriter, FileKind, RollingWriter, file_kind
from icecore.engine.data.write.file_options import delete_file_options
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.reserved import DELETE_PATH_ID, DELETE_POS_ID
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import DoubleType, FloatType, LongType, NestedField, StringType, StructType, UnknownType
from icecore.engine.storage.file_io import Storage

Granularity = Literal["file", "partition"]
Deleted = TypeVar("Deleted")
DeletedPositions = pyroaring.BitMap64 | Positions | Iterable[int]

POSITION_DELETE_SCHEMA = Schema(
    (
        NestedField(DELETE_PATH_ID, "file_path", StringType(), required=True, doc="Path of a file with deleted rows"),
        NestedField(DELETE_POS_ID, "pos", LongType(), required=True, doc="Position of a deleted row in it"),
    )
)
POSITION_DELETE_ARROW = schema_to_arrow(POSITION_DELETE_SCHEMA)
_ROWS_AT_ONCE = 256 * 1024


def by_partition(
    files: Iterable[tuple[ContentFile, Deleted]], specs: Mapping[int, PartitionSpec], schema: Schema
) -> Iterator[tuple[PartitionSpec, tuple[Any, ...], dict[str, Deleted]]]:
    """The deleted rows of data files, by their path, partition by partition. `schema` is the table's."""
    groups: dict[object, tuple[PartitionSpec, tuple[Any, ...], dict[str, Deleted]]] = {}
    for f, deleted in files:
        spec = specs[f.spec_id]
        group = groups.setdefault((f.spec_id, spec.key(f.partition, schema)), (spec, f.partition, {}))
        group[2][f.file_path] = deleted
    yield from groups.values()


def write_position_deletes(
    storage: Storage,
    location: str | DataLocations,
    deletes: Mapping[str, DeletedPositions],
    *,
    spec: PartitionSpec,
    partition: tuple[Any, ...],
    schema: Schema,
    properties: Mapping[str, str],
    file_prefix: str,
    format_version: int,
    granularity: Granularity = "file",
) -> list[ContentFile]:
    """Writes the deleted positions of data files, by their path, as position delete files of one partition.

    With the granularity `file` each data file gets delete files of its own, else they share them; a delete file that
    names one data file says so (`referenced_data_file`). Rows are sorted by path and position, each only once. Files
    are `<location>/<partition path>/<file_prefix>-<number>-deletes.<format>`, durable when the call returns; an error
    deletes what the call has written. `schema` is the table's, for the partition path.

    Raises ValidationError for a format version other than 2 (D1), a negative position or a bad property.
    """
    if format_version != 2:
        raise ValidationError(f"position delete files can be written in format version 2 only, found {format_version}")
    if granularity not in ("file", "partition"):
        raise ValidationError(f"the granularity of deletes is 'file' or 'partition', found {granularity!r}")
    bitmaps = {path: bitmap_of(positions) for path, positions in sorted(deletes.items())}
    modes = {DELETE_PATH_ID: Full(), DELETE_POS_ID: Full()}
    kind = file_kind(
        POSITION_DELETE_SCHEMA,
        storage,
        delete_file_options(properties),
        modes,
        spec.spec_id,
        None,
        DataFileContent.POSITION_DELETES,
        key_values={"delete-type": "position"},
    )
    files = _Files(kind, DataLocations.at(location), _path(spec, partition, schema), file_prefix)
    with files.deleted_on_error():
        for paths in [[p] for p in bitmaps] if granularity == "file" else [list(bitmaps)]:
            writer = RollingWriter(kind, partition, files.next_location)
            for path in paths:
                for rows in _rows(path, bitmaps[path]):
                    writer.add(rows)
            files.finish(writer)
    return [with_reference(f) for f in files.finished]


def write_equality_deletes(
    storage: Storage,
    location: str | DataLocations,
    data: pa.Table | pa.RecordBatch,
    equality_ids: Iterable[int],
    *,
    schema: Schema,
    spec: PartitionSpec,
    partition: tuple[Any, ...],
    properties: Mapping[str, str],
    file_prefix: str,
    format_version: int,
) -> ContentFile:
    """Writes rows as one equality delete file, which deletes all rows equal to one of them in the key columns.

    `data` has top-level columns of the schema by name, those of the keys among them; structs may be cut down. An
    unpartitioned spec makes the delete global (SP4). The file is
    `<location>/<partition path>/<file_prefix>-00000-deletes.<format>`, durable when the call returns.

    Raises ValidationError where there are no rows or no ids, a key is missing in the data, no primitive column, a
    float or double, or inside a list or map (D4), and for format version 1 (D1).
    """
    if format_version < 2:
        raise ValidationError("a table of format version 1 can't have delete files")
    keys = tuple(sorted(set(equality_ids)))
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    if not table.num_rows:
        raise ValidationError("an equality delete file without rows deletes nothing")
    stored = schema_of_data(schema, table.schema)
    _check_keys(schema, stored, keys)
    kind = file_kind(
        stored,
        storage,
        delete_file_options(properties),
        metrics_modes(stored, properties, None),
        spec.spec_id,
        None,
        DataFileContent.EQUALITY_DELETES,
        keys,
        {"delete-type": "equality", "delete-field-ids": ", ".join(map(str, keys))},
    )
    rows = conform(table, stored)
    files = _Files(kind, DataLocations.at(location), _path(spec, partition, schema), file_prefix)
    with files.deleted_on_error():
        writer = DataFileWriter(kind, files.next_location(), partition)
        try:
            for start in range(0, rows.num_rows, kind.options.row_group_rows):
                writer.write_group(rows.slice(start, kind.options.row_group_rows))
            return writer.close()
        except BaseException:
            writer.abort()
            raise


@frozen
class _Files:
    """The files that one call writes for one partition."""

    kind: FileKind
    locations: DataLocations
    partition_path: str
    file_prefix: str
    begun: list[str] = field(factory=list)
    finished: list[ContentFile] = field(factory=list)

    def next_location(self) -> str:
        name = f"{self.file_prefix}-{len(self.begun):05d}-deletes.{self.kind.extension}"
        self.begun.append(self.locations.new(name, self.partition_path))
        return self.begun[-1]

    def finish(self, writer: RollingWriter) -> None:
        try:
            self.finished.extend(writer.finish())
        except BaseException:
            writer.abort()
            raise

    @contextlib.contextmanager
    def deleted_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for location in self.begun:
                with contextlib.suppress(IcecoreError):
                    self.kind.storage.unwrite(location)
            raise


def _path(spec: PartitionSpec, partition: Sequence[Any], schema: Schema) -> str:
    if len(partition) != len(spec.fields):
        raise ValidationError(
            f"partition spec {spec.spec_id} has {len(spec.fields)} fields, found {len(partition)} values"
        )
    return spec.partition_to_path(partition, schema)


def _rows(path: str, bitmap: pyroaring.BitMap64) -> Iterator[pa.Table]:
    positions = np.asarray(bitmap.to_array(), dtype=np.int64)
    for start in range(0, len(positions), _ROWS_AT_ONCE):
        part = positions[start : start + _ROWS_AT_ONCE]
        yield pa.table([pa.repeat(pa.scalar(path), len(part)), pa.array(part)], schema=POSITION_DELETE_ARROW)


def with_reference(file: ContentFile) -> ContentFile:
    """The position delete file, with `referenced_data_file` if its bounds show that it has one data file only (D3)."""
    lower, upper = (b[DELETE_PATH_ID] for b in (file.lower_bounds or {}, file.upper_bounds or {}))
    return evolve(file, referenced_data_file=lower.decode()) if lower == upper else file


def schema_of_data(schema: Schema, arrow: pa.Schema) -> Schema:
    """The columns of the schema that the data has; structs keep only the fields that the data has."""
    return Schema(_stored_fields(schema.fields, arrow), schema.schema_id)


def _stored_fields(fields: Iterable[NestedField], arrow: Iterable[pa.Field]) -> tuple[NestedField, ...]:
    by_name = {f.name: f.type for f in arrow}
    out = []
    for f in fields:
        if f.name not in by_name:
            continue
        if isinstance(f.field_type, StructType) and pa.types.is_struct(by_name[f.name]):
            f = evolve(f, field_type=StructType(_stored_fields(f.field_type.fields, by_name[f.name])))
        out.append(f)
    return tuple(out)


def _check_keys(schema: Schema, stored: Schema, keys: tuple[int, ...]) -> None:
    if not keys:
        raise ValidationError("an equality delete file must have equality ids")
    for field_id in keys:
        f = schema.find_field(field_id)
        name = schema.name_of(field_id)
        if stored.get_field(field_id) is None:
            raise ValidationError(f"the data of an equality delete lacks its key column {name!r}")
        if not f.field_type.is_primitive or isinstance(f.field_type, (FloatType, DoubleType, UnknownType)):
            raise ValidationError(f"{name!r} of type {f.field_type} can't be the key of an equality delete")
        if schema.is_in_list_or_map(field_id):
            raise ValidationError(f"{name!r} is inside a list or map and can't be the key of an equality delete")
