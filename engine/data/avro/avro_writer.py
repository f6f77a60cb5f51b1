"""Avro data files: Iceberg schemas as Avro schemas, and rows as blocks of records.

Spec: Appendix A Avro (M7). Maps with string keys are Avro maps, others arrays of pairs, as Java writes them. Rows are
encoded as plain numbers and bytes: Avro's logical types, which only name a meaning, change no byte.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Mapping
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.data.arrow.arrow_schema import VARIANT_ARROW, type_to_arrow
from icecore.engine.data.avro.avro_options import AvroOptions
from icecore.engine.data.avro.avro_reader import without_logical_types
from icecore.engine.data.file.encoder import Layout
from icecore.engine.data.file.stored_form import form_table
from icecore.engine.errors import ValidationError
from icecore.engine.formats import avro_schema
from icecore.engine.formats.avro_blocks import (
    BLOCK_BYTES,
    SYNC_SIZE,
    encode_block,
    encode_header,
    read_blocks,
    read_header,
)
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import decimal_size
from icecore.engine.spec.types import (
    TIMESTAMP_TYPES,
    DateType,
    DecimalType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimeType,
    UUIDType,
    VariantType,
)

ROOT = "table"
_LONG_BACKED = (TimeType, *TIMESTAMP_TYPES)


@frozen
class _AvroWriter:
    """Avro types of one schema, with field ids at every level.

    `taken` are the names of types that it has used, `names` those of the fields of its records, by id.
    """

    taken: set[str] = field(factory=lambda: {ROOT})
    names: dict[int, str] = field(factory=dict)

    def record(self, name: str, fields: tuple[NestedField, ...]) -> dict[str, Any]:
        written = avro_schema.record_fields(self.field(f) for f in fields)
        self.names.update((f[avro_schema.FIELD_ID], f["name"]) for f in written)
        return {"type": "record", "name": name, "fields": written}

    def field(self, f: NestedField) -> dict[str, Any]:
        out = avro_schema.field(f.name, f.field_id, self.type(f), optional=f.optional)
        return out if f.doc is None else {**out, "doc": f.doc}

    def optional(self, f: NestedField) -> Any:
        return self.type(f) if f.required else ["null", self.type(f)]

    def type(self, f: NestedField) -> Any:
        match f.field_type:
            case StructType(fields=fields):
                return self.record(f"r{f.field_id}", fields)
            case ListType() as t:
                return {"type": "array", "items": self.optional(t.element_field), "element-id": t.element_id}
            case MapType(key=StringType()) as t:
                ids = {"key-id": t.key_id, "value-id": t.value_id}
                return {"type": "map", "values": self.optional(t.value_field), **ids}
            case MapType() as t:
                pair = self.record(f"k{t.key_id}_v{t.value_id}", (t.key_field, t.value_field))
                return {"type": "array", "logicalType": "map", "items": pair}
            case VariantType():
                parts = [{"name": p.name, "type": "bytes"} for p in VARIANT_ARROW]
                return {"type": "record", "name": f"r{f.field_id}", "logicalType": "variant", "fields": parts}
            case _ as t:
                return avro_schema.avro_type(t, self.taken)


@frozen
class AvroForm:
    """Columns as the values that Avro encodes: numbers, bytes, text; the fields of records by their `names` there."""

    names: Mapping[int, str]

    def primitive(self, t: PrimitiveType) -> pa.DataType:
        """See `Form`."""
        match t:
            case UUIDType():
                return pa.binary(16)
            case DateType():
                return pa.int32()
            case DecimalType(precision=precision):
                return pa.binary(decimal_size(precision))
            case _ if isinstance(t, _LONG_BACKED):
                return pa.int64()
            case _:
                return type_to_arrow(t, with_ids=False)

    def array(self, t: PrimitiveType, array: pa.Array, path: str) -> pa.Array:
        """See `Form`."""
        match t:
            case UUIDType():
                return array.storage if isinstance(array, pa.ExtensionArray) else array
            case DecimalType(precision=precision):
                return _big_endian(array, decimal_size(precision))
            case VariantType():
                return array
            case _:
                return array.cast(self.primitive(t))

    def field(self, f: NestedField, arrow_type: pa.DataType) -> pa.Field:
        """See `Form`."""
        return pa.field(self.names.get(f.field_id, f.name), arrow_type)

    def map_type(self, key: pa.Field, value: pa.Field) -> pa.DataType:
        """See `Form`: maps with string keys stay maps."""
        if pa.types.is_string(key.type):
            return pa.map_(key.with_nullable(False), value)
        return pa.list_(pa.field("element", pa.struct([key, value])))


def _big_endian(array: pa.Array, size: int) -> pa.Array:
    """Unscaled decimals as big-endian numbers of `size` bytes."""
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.binary(size))
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 16 : (array.offset + len(array)) * 16]
    turned = data.reshape(-1, 16)[:, ::-1][:, 16 - size :].tobytes()
    out = pa.Array.from_buffers(pa.binary(size), len(array), [None, pa.py_buffer(turned)])
    return pc.if_else(array.is_valid(), out, pa.scalar(None, pa.binary(size))) if array.null_count else out


class AvroEncoder:
    """Writes Avro in blocks of about 64 KiB. See `Encoder`."""

    def __init__(
        self, stored: Schema, options: AvroOptions, key_values: Mapping[str, str], sink: pa.NativeFile, location: str
    ) -> None:
        self._stored = stored
        self._options = options
        self._sink = sink
        self._location = location
        writer = _AvroWriter()
        schema = writer.record(ROOT, stored.fields)
        self._form = AvroForm(writer.names)
        self._encoding = fastavro.parse_schema(without_logical_types(schema))
        self._sync_marker = secrets.token_bytes(SYNC_SIZE)
        metadata = {"avro.schema": orjson.dumps(schema).decode(), **key_values}
        sink.write(encode_header(metadata, codec=options.codec, sync_marker=self._sync_marker))

    def write(self, rows: pa.Table) -> None:
        """See `Encoder`. Raises ValidationError where a map has a key twice, which an Avro map can't hold."""
        try:
            records = form_table(self._form, rows, self._stored).to_pylist(maps_as_pydicts="strict")
        except KeyError as e:
            raise ValidationError(f"{self._location}: a map has a key twice, which Avro can't store: {e}") from e
        encoded = io.BytesIO()
        fastavro.writer(encoded, self._encoding, records, codec="null", sync_interval=BLOCK_BYTES)
        data = encoded.getvalue()
        for block in read_blocks(data, read_header(data, self._location), self._location, most_bytes=None):
            self._sink.write(
                encode_block(block, codec=self._options.codec, sync_marker=self._sync_marker, level=self._options.level)
            )

    def end(self) -> None:
        """See `Encoder`: an Avro file ends with its last block."""

    def layout(self) -> Layout:
        """See `Encoder`: Avro stores rows, so columns have no size, and readers find blocks from any offset."""
        return Layout(None, None)

    def abandon(self) -> None:
        """See `Encoder`."""
