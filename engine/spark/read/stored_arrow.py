"""Arrow data in the form in which Spark takes it: the stored Spark types of `engine/spark/spark_types.py`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.data.variant.variant_shredding import METADATA, VALUE
from icecore.engine.spark.read.frame_columns import ReadColumn
from icecore.engine.spec.types import (
    FixedType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    Type,
    UUIDType,
    VariantType,
)

_SPARK_VARIANT = [pa.field(VALUE, pa.binary(), nullable=False), pa.field(METADATA, pa.binary(), nullable=False)]
_LONGS = (TimeType, TimestampNanoType, TimestamptzNanoType)


def stored_array(array: pa.Array, t: Type) -> pa.Array:
    """A primitive column in the Arrow form of its stored Spark type."""
    match t:
        case UUIDType():
            storage = array.storage if isinstance(array, pa.ExtensionArray) else array
            return storage.cast(pa.binary())
        case FixedType():
            return array.cast(pa.binary())
        case VariantType():
            # Spark takes the parts by their place: the value comes first.
            metadata, value = array.field(METADATA), array.field(VALUE)
            return pa.StructArray.from_arrays([value, metadata], fields=_SPARK_VARIANT, mask=null_mask(array))
        case _ if isinstance(t, _LONGS):
            return array.cast(pa.int64())
        case _:
            return array


def stored_batch(batch: pa.RecordBatch, columns: Sequence[ReadColumn]) -> pa.RecordBatch:
    """The batch, whose columns are the fields of `columns`, under their read names and in stored types."""
    arrays = [_stored(a, c) for a, c in zip(batch.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[c.name for c in columns])


def _stored(array: pa.Array, column: ReadColumn) -> pa.Array:
    mask = null_mask(array)
    match column.field.field_type:
        case StructType():
            pairs = zip(struct_children(array), column.parts, strict=True)
            kept = [(_stored(a, p), p.name) for a, p in pairs if p.is_read]
            return pa.StructArray.from_arrays([a for a, _ in kept], names=[n for _, n in kept], mask=mask)
        case ListType():
            offsets, values = list_parts(array)
            return pa.ListArray.from_arrays(offsets, _stored(values, column.parts[0]), mask=mask)
        case MapType():
            offsets, keys, values = map_parts(array)
            keys, values = _stored(keys, column.parts[0]), _stored(values, column.parts[1])
            return pa.MapArray.from_arrays(offsets, keys, values, type=pa.map_(keys.type, values.type), mask=mask)
        case t:
            return stored_array(array, t)
