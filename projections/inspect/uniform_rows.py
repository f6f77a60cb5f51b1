"""Files and entries in columns that are the same for every table, for SQL over many tables.

What has another type in each table is text there: a partition as a path (`day=2024-01-01/city=Oslo`) and by its fields,
readable metrics by the full names of the fields, their bounds as text. All else is as in `file_rows_of_entries`.
"""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.data.arrow.arrow_values import from_array
from icecore.engine.data.arrow.row_codes import row_codes
from icecore.engine.formats.binary_columns import interleave
from icecore.engine.formats.entry_arrow import BINARIES, COUNTS
from icecore.engine.spec.content_file import DataFileContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import human_string
from icecore.projections.inspect.file_rows_of_entries import EntryColumns
from icecore.projections.inspect.live_files import LIVE_FILES

TEXTS = pa.map_(pa.string(), pa.string())
COUNT_NAMES = ("column_size", "value_count", "null_value_count", "nan_value_count")
METRICS = pa.map_(
    pa.string(),
    pa.struct([*((n, pa.int64()) for n in COUNT_NAMES), ("lower_bound", pa.string()), ("upper_bound", pa.string())]),
)
UNIFORM_FILES = pa.schema(
    [
        *LIVE_FILES,
        ("partition_values", TEXTS),
        *((f"{name}s", COUNTS) for name in COUNT_NAMES),
        ("lower_bounds", BINARIES),
        ("upper_bounds", BINARIES),
        ("key_metadata", pa.binary()),
        ("split_offsets", pa.list_(pa.int64())),
        ("sort_order_id", pa.int32()),
        ("first_row_id", pa.int64()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("readable_metrics", METRICS),
    ]
)
# A file without its metrics.
PLAIN_FILES = pa.schema(
    [
        UNIFORM_FILES.field(name)
        for name in (
            "content",
            "file_path",
            "file_format",
            "spec_id",
            "partition",
            "partition_values",
            "record_count",
            "file_size_in_bytes",
        )
    ]
)
_SEQUENCE = ("snapshot_id", "sequence_number", "file_sequence_number")
_TRACKING = [("status", pa.int8()), *((name, pa.int64()) for name in _SEQUENCE)]
_NOT_OF_FILE = ("snapshot_id", "sequence_number", "readable_metrics")
_DATA_FILE = pa.struct([f for f in UNIFORM_FILES if f.name not in _NOT_OF_FILE])
UNIFORM_ENTRIES = pa.schema([*_TRACKING, ("data_file", _DATA_FILE), ("readable_metrics", METRICS)])
_CONTENTS = pa.array([c.name.lower() for c in sorted(DataFileContent)])


@frozen
class UniformColumns:
    """The files and entries of a table in uniform columns."""

    metadata: TableMetadata
    columns: EntryColumns

    @classmethod
    def of(cls, metadata: TableMetadata) -> UniformColumns:
        """The columns of a table. Raises ValidationError where a partition spec has an unknown transform."""
        return cls(metadata, EntryColumns.of(metadata))

    def file_rows(self, entries: pa.Table) -> pa.Table:
        """The rows of UNIFORM_FILES for canonical entries in one piece."""
        rows = self.columns.file_rows(entries)
        paths, values = self.partition_texts(entries)
        made = {
            "content": content_names(rows["content"]),
            "file_format": format_names(rows["file_format"]),
            "partition": paths,
            "partition_values": values,
            "readable_metrics": self._metrics(rows["readable_metrics"].combine_chunks()),
            **{name: entries[name] for name in ("snapshot_id", "sequence_number")},
        }
        columns = [made[n] if n in made else rows[n] for n in UNIFORM_FILES.names]
        return pa.table(columns, schema=UNIFORM_FILES)

    def plain_rows(self, entries: pa.Table) -> pa.Table:
        """The rows of PLAIN_FILES for canonical entries in one piece."""
        paths, values = self.partition_texts(entries)
        made = {
            "content": content_names(entries["content"]),
            "file_format": format_names(entries["file_format"]),
            "partition": paths,
            "partition_values": values,
        }
        columns = [made[f.name] if f.name in made else entries[f.name].cast(f.type) for f in PLAIN_FILES]
        return pa.table(columns, schema=PLAIN_FILES)

    def entry_rows(self, entries: pa.Table) -> pa.Table:
        """The rows of UNIFORM_ENTRIES for canonical entries in one piece."""
        files = self.file_rows(entries)
        parts = [files[f.name].combine_chunks() for f in _DATA_FILE]
        data_file = pa.StructArray.from_arrays(parts, fields=list(_DATA_FILE))
        tracking = [entries[name].cast(kind) for name, kind in _TRACKING]
        return pa.table([*tracking, data_file, files["readable_metrics"]], schema=UNIFORM_ENTRIES)

    def partition_texts(self, entries: pa.Table) -> tuple[pa.Array, pa.Array]:
        """The partition of each entry as a path, and its fields as text."""
        return self.texts_of(entries["spec_id"].combine_chunks(), self.columns.partitions(entries))

    def texts_of(self, spec_ids: pa.Array, partitions: pa.StructArray) -> tuple[pa.Array, pa.Array]:
        """The paths and the fields of partitions by their specs; each partition is put into words once.

        Raises ValidationError for a spec that is none of the table's.
        """
        codes = row_codes([spec_ids, partitions], len(spec_ids))
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        fields = self.columns.partition.fields
        chosen = partitions.take(pa.array(first)).flatten()
        values = {f.field_id: from_array(f.primitive_type, column) for f, column in zip(fields, chosen, strict=True)}
        schema, paths, texts = self.metadata.all_fields, [], []
        for row, spec_id in enumerate(spec_ids.take(pa.array(first)).to_pylist()):
            spec = self.metadata.spec_by_id(spec_id)
            partition = [values[f.field_id][row] for f in spec.fields]
            paths.append(spec.partition_to_path(partition, schema))
            texts.append([(f.name, in_words(f, v, schema)) for f, v in zip(spec.fields, partition, strict=True)])
        index = pa.array(place)
        return pa.array(paths, pa.string()).take(index), pa.array(texts, TEXTS).take(index)

    def _metrics(self, metrics: pa.StructArray) -> pa.Array:
        """A map of the metrics of each file, by the names of the fields."""
        names, rows = [name for name, _, _ in self.columns.measured], len(metrics)
        fields = metrics.flatten()
        if not fields or not rows:
            return pa.array([[]] * rows, METRICS)
        parts = [f.flatten() for f in fields]
        children = [interleave([p[i] for p in parts], rows) for i in range(len(COUNT_NAMES))]
        children += [interleave([as_text(p[i]) for p in parts], rows) for i in (-2, -1)]
        items = pa.StructArray.from_arrays(children, fields=list(METRICS.item_type))
        offsets = pa.array(np.arange(0, rows * len(names) + 1, len(names), dtype=np.int32))
        keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), rows)))
        return pa.MapArray.from_arrays(offsets, keys, items).cast(METRICS)


def content_names(contents: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The words for contents: `data` and so on."""
    return _CONTENTS.take(contents)


def format_names(formats: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """File formats in small letters."""
    return pc.utf8_lower(pc.utf8_upper(formats.cast(pa.string())))


def as_text(column: pa.Array) -> pa.Array:
    """Values as people write them: bytes in hexadecimal digits, dates and times in ISO 8601."""
    if isinstance(column.type, pa.UuidType):
        found = (None if v is None else str(uuid.UUID(bytes=v)) for v in column.storage.to_pylist())
        return pa.array(found, pa.string())
    if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        return pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def in_words(f: PartitionField, value: Any, schema: Schema) -> str | None:
    """The value of a partition field as people write it."""
    return None if value is None else human_string(f.transform, f.result_type(schema), value)
