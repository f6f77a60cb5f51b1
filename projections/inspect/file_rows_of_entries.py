"""Manifest entries as rows of metadata tables: `files` and its like, and `entries`, with Iceberg's columns.

Names, order and types of columns are those of PyIceberg's `inspect`, which are Iceberg Java's. What PyIceberg leaves
out (`spec_id` of an entry, `first_row_id`, `referenced_data_file`, `content_offset`, `content_size_in_bytes`) is where
Java has it. Spec: Manifests (M1, M2, M5).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.formats.entry_arrow import BINARIES, COUNTS, METRICS
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import PrimitiveType, StructType, VariantType, walk
from icecore.projections.entries.keyed_values import KeyedValues, keyed_values
from icecore.projections.entries.partition_tuples import chunk_of
from icecore.projections.inspect.partition_statistics import unified_partition_type
from icecore.projections.inspect.shown_values import shown_type, shown_values

_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}
READABLE_METRICS = "readable_metrics"
_HEAD = (
    pa.field("content", pa.int8(), nullable=False),
    pa.field("file_path", pa.string(), nullable=False),
    pa.field("file_format", pa.string(), nullable=False),
    pa.field("spec_id", pa.int32(), nullable=False),
)
_TAIL = (
    pa.field("record_count", pa.int64(), nullable=False),
    pa.field("file_size_in_bytes", pa.int64(), nullable=False),
    *(pa.field(name, COUNTS) for name in _COUNTS.values()),
    *(pa.field(name, BINARIES) for name in _BOUNDS.values()),
    pa.field("key_metadata", pa.binary()),
    pa.field("split_offsets", pa.list_(pa.int64())),
    pa.field("equality_ids", pa.list_(pa.int32())),
    pa.field("sort_order_id", pa.int32()),
    pa.field("first_row_id", pa.int64()),
    pa.field("referenced_data_file", pa.string()),
    pa.field("content_offset", pa.int64()),
    pa.field("content_size_in_bytes", pa.int64()),
)
_TRACKING = (
    pa.field("status", pa.int8(), nullable=False),
    pa.field("snapshot_id", pa.int64()),
    pa.field("sequence_number", pa.int64()),
    pa.field("file_sequence_number", pa.int64()),
)
_FORMATS = pa.dictionary(pa.int32(), pa.string())


@frozen
class EntryColumns:
    """The columns of a table's files and entries: what its partitions are, and which fields have readable metrics."""

    partition: StructType
    measured: tuple[tuple[str, int, PrimitiveType], ...]

    @classmethod
    def of(cls, metadata: TableMetadata) -> EntryColumns:
        """The columns as the current schema names the fields; partitions are of all specs that there ever were.

        Raises ValidationError where a spec has an unknown transform.
        """
        return cls(unified_partition_type(metadata), tuple(_measured(metadata.schema())))

    @classmethod
    def of_history(cls, metadata: TableMetadata) -> EntryColumns:
        """As `of`, with the fields that earlier schemas had, by their last names.

        A name that another field has by now is followed by the id. Raises ValidationError as `of`.
        """
        found = list(_measured(metadata.schema()))
        names, ids = {name for name, _, _ in found}, {field_id for _, field_id, _ in found}
        for schema in reversed(metadata.schemas):
            for name, field_id, kind in _measured(schema):
                if field_id not in ids:
                    found.append((name if name not in names else f"{name} (field {field_id})", field_id, kind))
                    names.add(found[-1][0])
                    ids.add(field_id)
        return cls(unified_partition_type(metadata), tuple(found))

    @property
    def partition_field(self) -> pa.Field:
        """The column `partition`."""
        fields = [pa.field(f.name, shown_type(f.primitive_type)) for f in self.partition.fields]
        return pa.field("partition", pa.struct(fields), nullable=False)

    @property
    def metrics_field(self) -> pa.Field:
        """The column `readable_metrics`: by name of each primitive field, also those inside of others."""
        kinds = [pa.field(name, _metrics_type(kind), nullable=False) for name, _, kind in self.measured]
        return pa.field(READABLE_METRICS, pa.struct(kinds))

    @property
    def files(self) -> pa.Schema:
        """The schema of `files` and its like."""
        formats = pa.field("file_format", _FORMATS, nullable=False)
        head = [formats if f.name == "file_format" else f for f in _HEAD]
        return pa.schema([*head, self.partition_field, *_TAIL, self.metrics_field])

    @property
    def entries(self) -> pa.Schema:
        """The schema of `entries` and `all_entries`."""
        data_file = pa.struct([*_HEAD, self.partition_field, *_TAIL])
        return pa.schema([*_TRACKING, pa.field("data_file", data_file, nullable=False), self.metrics_field])

    def file_rows(self, entries: pa.Table) -> pa.Table:
        """The rows of `files` for canonical entries in one piece."""
        columns = self._of_file(entries, self.files)
        return pa.table([*columns, self._metrics(entries)], schema=self.files)

    def entry_rows(self, entries: pa.Table) -> pa.Table:
        """The rows of `entries` for canonical entries in one piece."""
        schema = self.entries
        kind = schema.field("data_file").type
        data_file = pa.StructArray.from_arrays(self._of_file(entries, pa.schema(kind)), fields=list(kind))
        tracking = [chunk_of(entries, f.name).cast(f.type) for f in _TRACKING]
        return pa.table([*tracking, data_file, self._metrics(entries)], schema=schema)

    def _of_file(self, entries: pa.Table, schema: pa.Schema) -> list[pa.Array]:
        """The columns of a data file but its metrics made readable."""
        return [self._file_column(entries, f) for f in schema if f.name != READABLE_METRICS]

    def _file_column(self, entries: pa.Table, wanted: pa.Field) -> pa.Array:
        match wanted.name:
            case "partition":
                return self.partitions(entries)
            case "file_format":
                column = pc.utf8_upper(chunk_of(entries, "file_format"))
                return column.dictionary_encode() if pa.types.is_dictionary(wanted.type) else column
            case name:
                column = chunk_of(entries, name)
                return column if column.type.equals(wanted.type) else column.cast(wanted.type)

    def partitions(self, entries: pa.Table) -> pa.Array:
        """The partition of each entry as a struct of all partition fields, null where its spec has no such."""
        values = keyed_values(chunk_of(entries, "partition"))
        children = [
            shown_values(f.primitive_type, values, f.field_id, is_partition=True) for f in self.partition.fields
        ]
        return struct_of(children, list(self.partition_field.type), entries.num_rows)

    def _metrics(self, entries: pa.Table) -> pa.Array:
        """The metrics of each entry, by name of the field."""
        maps = {name: keyed_values(chunk_of(entries, name)) for name in METRICS}
        children = [_metrics_of(maps, field_id, kind, entries.num_rows) for _, field_id, kind in self.measured]
        return struct_of(children, list(self.metrics_field.type), entries.num_rows)


def struct_of(children: Sequence[pa.Array], fields: Sequence[pa.Field], rows: int) -> pa.Array:
    """A struct column, also of no fields."""
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), rows, [None])
    return pa.StructArray.from_arrays(list(children), fields=list(fields))


def _measured(schema: Schema) -> list[tuple[str, int, PrimitiveType]]:
    """The fields that metrics can be of, by full name: in the order of the schema, those of a struct in its place."""
    fields = [f for f in walk(schema.fields) if f.field_type.is_primitive and not isinstance(f.field_type, VariantType)]
    return [(schema.name_of(f.field_id), f.field_id, f.primitive_type) for f in fields]


def _metrics_type(kind: PrimitiveType) -> pa.DataType:
    counts = [pa.field(name, pa.int64()) for name in _COUNTS]
    return pa.struct([*counts, *(pa.field(name, shown_type(kind)) for name in _BOUNDS)])


def _metrics_of(maps: dict[str, KeyedValues], field_id: int, kind: PrimitiveType, rows: int) -> pa.Array:
    counts = [maps[name].column(field_id) for name in _COUNTS.values()]
    bounds = [shown_values(kind, maps[name], field_id) for name in _BOUNDS.values()]
    return struct_of([*counts, *bounds], list(_metrics_type(kind)), rows)
