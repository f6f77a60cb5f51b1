"""Parquet files written with pyarrow. Spec: Appendix A Parquet."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import FIELD_ID_KEY, type_to_arrow
from icecore.engine.data.file.encoder import Layout
from icecore.engine.data.file.stored_column import without_hidden_nulls
from icecore.engine.data.file.stored_form import form_schema, form_table
from icecore.engine.data.parquet.dictionary_columns import dictionary_columns
from icecore.engine.data.parquet.parquet_footer import HoldingSink, logical_type, with_logical_types
from icecore.engine.data.parquet.parquet_options import ParquetOptions
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import GeographyType, GeometryType, NestedField, PrimitiveType, VariantType, walk

_GEO = (GeometryType, GeographyType)


class WkbType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """GeoArrow's extension type of WKB: by it Arrow's Parquet writer recognizes shapes and writes their statistics."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> WkbType:
        return cls(serialized)


@frozen
class ParquetForm:
    """Columns as pyarrow's Parquet writer takes them; only those of shapes change."""

    def primitive(self, t: PrimitiveType) -> pa.DataType:
        """See `Form`."""
        match t:
            case GeometryType():
                return WkbType(b"{}")
            case GeographyType():
                return WkbType(orjson.dumps({"edges": "spherical"}))
            case _:
                return type_to_arrow(t)

    def array(self, t: PrimitiveType, array: pa.Array, path: str) -> pa.Array:
        """See `Form`."""
        return pa.ExtensionArray.from_storage(self.primitive(t), array) if isinstance(t, _GEO) else array

    def field(self, f: NestedField, arrow_type: pa.DataType) -> pa.Field:
        """See `Form`."""
        return pa.field(f.name, arrow_type, f.optional, metadata={FIELD_ID_KEY: str(f.field_id).encode()})

    def map_type(self, key: pa.Field, value: pa.Field) -> pa.DataType:
        """See `Form`."""
        return pa.map_(key, value)


class ParquetEncoder:
    """Writes Parquet, each table as a row group. See `Encoder`."""

    def __init__(
        self, stored: Schema, options: ParquetOptions, key_values: Mapping[str, str], sink: pa.NativeFile
    ) -> None:
        self._stored = stored
        self._form = ParquetForm()
        fields = list(walk(stored.fields))
        self._has_shapes = any(isinstance(f.field_type, _GEO) for f in fields)
        types = {f.field_id: logical_type(f.field_type) for f in fields}
        self._logical_types = {i: encoded for i, encoded in types.items() if encoded is not None}
        self._holding = HoldingSink(sink) if self._logical_types else None
        self._footers: list[pq.FileMetaData] = []
        self._options = options
        self._key_values = dict(key_values)
        self._sink = self._holding or sink
        self._begun: Any = None

    def _writer(self, rows: pa.Table | None = None) -> Any:
        """Arrow's writer, begun when first asked for; the rows given then choose the columns with dictionaries."""
        if self._begun is None:
            self._begun = pq.ParquetWriter(
                self._sink,
                form_schema(self._form, self._stored.fields),
                compression=self._options.codec,
                compression_level=self._options.level,
                store_schema=False,
                store_decimal_as_integer=True,
                data_page_size=self._options.page_size,
                use_dictionary=True if rows is None else dictionary_columns(rows),
                dictionary_pagesize_limit=self._options.dictionary_size,
                write_page_checksum=True,
                metadata_collector=self._footers,
            )
            self._begun.add_key_value_metadata(self._key_values)
        return self._begun

    def write(self, rows: pa.Table) -> None:
        """See `Encoder`."""
        rows = without_hidden_nulls(rows, self._stored)
        if self._has_shapes:
            rows = form_table(self._form, rows, self._stored)
        self._writer(rows).write_table(rows, row_group_size=len(rows))

    def end(self) -> None:
        """See `Encoder`."""
        if self._holding is None:
            self._writer().close()
            return
        writer = self._writer()
        self._holding.hold()
        writer.close()
        self._holding.release(lambda tail: with_logical_types(tail, self._logical_types))

    def layout(self) -> Layout:
        """See `Encoder`."""
        footer = self._footers[0]
        offsets = sorted(row_group_start(footer.row_group(g)) for g in range(footer.num_row_groups))
        return Layout(_column_sizes(footer, self._stored), tuple(offsets))

    def abandon(self) -> None:
        """See `Encoder`."""
        with contextlib.suppress(Exception):
            self._begun.close()


def _column_sizes(footer: pq.FileMetaData, stored: Schema) -> dict[int, int]:
    """Bytes by field id; the columns of the file are the primitive fields in their order, a variant is two."""
    primitives = [f for f in walk(stored.fields) if f.field_type.is_primitive]
    ids = [f.field_id for f in primitives for _ in range(2 if isinstance(f.field_type, VariantType) else 1)]
    sizes = dict.fromkeys(ids, 0)
    for g in range(footer.num_row_groups):
        group = footer.row_group(g)
        for i, field_id in enumerate(ids):
            sizes[field_id] += group.column(i).total_compressed_size
    return sizes


def row_group_start(group: pq.RowGroupMetaData) -> int:
    """The offset in the file of a row group's first page."""
    return min(_column_start(group.column(i)) for i in range(group.num_columns))


def _column_start(column: pq.ColumnChunkMetaData) -> int:
    offsets = (column.dictionary_page_offset, column.data_page_offset)
    return min((int(o) for o in offsets if o), default=0)
