"""ORC files written with pyarrow, the field ids in the attributes of ORC's types.

Spec: Appendix A ORC. Times before 1970 with a fraction of a second are refused, see `_checked_times`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import VARIANT_ARROW, type_to_arrow
from icecore.engine.data.arrow.nested import null_mask, struct_children
from icecore.engine.data.file.encoder import Layout
from icecore.engine.data.file.stored_form import form_schema, form_table
from icecore.engine.data.orc.orc_options import OrcOptions
from icecore.engine.data.orc.orc_tail import column_bytes, read_tail
from icecore.engine.errors import ValidationError
from icecore.engine.properties.table_properties import DATA_FORMAT
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import NS_PER_SECOND, US_PER_SECOND, format_timestamp
from icecore.engine.spec.types import (
    BinaryType,
    FixedType,
    GeographyType,
    GeometryType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    Type,
    UUIDType,
    VariantType,
    children,
)
from icecore.engine.storage.file_io import Storage

ID_KEY = "iceberg.id"


@frozen
class OrcForm:
    """Columns as ORC stores them."""

    def primitive(self, t: PrimitiveType) -> pa.DataType:
        """See `Form`."""
        match t:
            case UUIDType() | FixedType():
                return pa.binary()
            case TimeType():
                return pa.int64()
            case VariantType():
                return pa.struct([pa.field(f.name, f.type) for f in VARIANT_ARROW])
            case _:
                return type_to_arrow(t, with_ids=False)

    def array(self, t: PrimitiveType, array: pa.Array, path: str) -> pa.Array:
        """See `Form`."""
        match t:
            case UUIDType() | FixedType():
                plain = array.storage if isinstance(array, pa.ExtensionArray) else array
                return _at_zero(plain.cast(pa.binary()))
            case TimeType():
                return _at_zero(array.cast(pa.int64()))
            case VariantType():
                parts = [_at_zero(c) for c in struct_children(array)]
                return pa.StructArray.from_arrays(parts, fields=list(self.primitive(t)), mask=null_mask(array))
            case TimestampType() | TimestamptzType():
                return _at_zero(_checked_times(array, US_PER_SECOND, path))
            case TimestampNanoType() | TimestamptzNanoType():
                return _at_zero(_checked_times(array, NS_PER_SECOND, path))
            case _:
                return _at_zero(array)

    def field(self, f: NestedField, arrow_type: pa.DataType) -> pa.Field:
        """See `Form`."""
        attributes = {ID_KEY: str(f.field_id), "iceberg.required": "true" if f.required else "false"}
        return pa.field(f.name, arrow_type, metadata={**attributes, **_type_attributes(f.field_type)})

    def map_type(self, key: pa.Field, value: pa.Field) -> pa.DataType:
        """See `Form`."""
        return pa.map_(key.with_nullable(False), value)


def _checked_times(array: pa.Array, per_second: int, path: str) -> pa.Array:
    """Raises ValidationError for times before 1970 that are no whole seconds.

    ORC stores seconds and unsigned nanoseconds apart. Arrow writes negative nanoseconds, so that Java reads another
    time; the way of ORC's own writers turns times in the last second before 1970 into times in the first one after it.
    """
    numbers = np.asarray(pc.fill_null(array.cast(pa.int64()), 0))
    wrong = (numbers < 0) & (numbers % per_second != 0)
    if wrong.any():
        text = format_timestamp(int(numbers[wrong][0]), with_zone=False, per_second=per_second)
        raise ValidationError(
            f"column {path!r}: {text} can't be written to ORC, which holds times before 1970 in whole seconds only; "
            f"set {DATA_FORMAT.name} to parquet or avro"
        )
    return array


def _at_zero(array: pa.Array) -> pa.Array:
    """The array without an offset: below structs Arrow's ORC writer ignores offsets and writes other rows."""
    return array.take(pa.array(np.arange(len(array)))) if array.offset else array


def _type_attributes(t: Type) -> dict[str, str]:
    """The attributes that tell apart the Iceberg types of one ORC type."""
    match t:
        case TimeType():
            return {"iceberg.long-type": "TIME"}
        case LongType():
            return {"iceberg.long-type": "LONG"}
        case TimestampType() | TimestamptzType():
            return {"iceberg.timestamp-unit": "MICROS"}
        case TimestampNanoType() | TimestamptzNanoType():
            return {"iceberg.timestamp-unit": "NANOS"}
        case UUIDType():
            return {"iceberg.binary-type": "UUID"}
        case FixedType(length=length):
            return {"iceberg.binary-type": "FIXED", "iceberg.length": str(length)}
        case BinaryType():
            return {"iceberg.binary-type": "BINARY"}
        case GeometryType():
            return {"iceberg.binary-type": "GEOMETRY"}
        case GeographyType():
            return {"iceberg.binary-type": "GEOGRAPHY"}
        case VariantType():
            return {"iceberg.struct-type": "VARIANT"}
        case _:
            return {}


class OrcEncoder:
    """Writes ORC; the writer decides by itself where a stripe ends. See `Encoder`."""

    def __init__(self, stored: Schema, options: OrcOptions, sink: pa.NativeFile, storage: Storage, location: str):
        self._stored = stored
        self._storage = storage
        self._location = location
        self._form = OrcForm()
        self._writer: Any = pyarrow.orc.ORCWriter(
            sink,
            compression=options.codec,
            compression_block_size=options.block_size,
            compression_strategy=options.strategy,
            stripe_size=options.stripe_size,
        )
        self._empty = pa.Table.from_batches([], form_schema(self._form, stored.fields))
        self._wrote = False

    def write(self, rows: pa.Table) -> None:
        """See `Encoder`."""
        self._writer.write(form_table(self._form, rows, self._stored))
        self._wrote = True

    def end(self) -> None:
        """See `Encoder`."""
        if not self._wrote:
            self._writer.write(self._empty)
        self._writer.close()

    def layout(self) -> Layout:
        """See `Encoder`: the file's own tail says where the stripes are."""
        with self._storage.open_input(self._location) as source:
            tail = read_tail(source, self._location)
            sizes = column_bytes(source, tail, self._location)
        columns = _orc_columns(self._stored)
        found = {field_id: sum(sizes.get(c, 0) for c in numbers) for field_id, numbers in columns.items()}
        return Layout(found, tuple(s.offset for s in tail.stripes))

    def abandon(self) -> None:
        """See `Encoder`."""
        with contextlib.suppress(Exception):
            self._writer.close()


def _orc_columns(stored: Schema) -> dict[int, range]:
    """The numbers of the ORC columns of each primitive field, by field id; a variant has three."""
    out: dict[int, range] = {}

    def number(fields: tuple[NestedField, ...], following: int) -> int:
        for f in fields:
            width = 3 if isinstance(f.field_type, VariantType) else 1
            if f.field_type.is_primitive:
                out[f.field_id] = range(following, following + width)
            following = number(children(f.field_type), following + width)
        return following

    number(stored.fields, 1)
    return out
