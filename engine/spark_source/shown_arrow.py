"""Rows in Arrow as a Spark DataFrame shows them: see `engine/spark/spark_types.py` for the types."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pyarrow as pa

from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.stored_arrow import stored_array
from icecore.engine.spark.spark_types import schema_to_spark
from icecore.engine.spark.task_frames import arrow_frame
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    Type,
    UUIDType,
)


def spark_arrow_schema(struct: T.StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches with these columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # PySpark 4.1 has no other zone, and no such parameter.
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(struct, **zone)


def shown_frame(session: SparkSession, rows: pa.Table, schema: Schema) -> DataFrame:
    """A DataFrame of rows in the driver, whose columns are the schema's.

    Spark is told the types: by Arrow's alone it would take timestamps without a zone for those of the session's zone.
    """
    struct = schema_to_spark(schema)
    if not rows.num_rows:
        return session.createDataFrame([], struct)
    wanted = spark_arrow_schema(struct)
    shown = pa.Table.from_batches([shown_batch(b, schema, wanted) for b in rows.to_batches()], wanted)
    return arrow_frame(session, shown, struct)


def shown_batch(batch: pa.RecordBatch, schema: Schema, wanted: pa.Schema) -> pa.RecordBatch:
    """The batch, whose columns are the schema's, in the Arrow types that Spark expects of it."""
    columns = [
        _shown(array, field.field_type, target.type)
        for array, field, target in zip(batch.columns, schema.fields, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _shown(array: pa.Array, t: Type, wanted: pa.DataType) -> pa.Array:
    mask = null_mask(array)
    match t:
        case StructType(fields=fields):
            targets = list(wanted)
            children = zip(struct_children(array), fields, targets, strict=True)
            parts = [_shown(a, f.field_type, target.type) for a, f, target in children]
            if not parts:
                return array.cast(wanted)
            return pa.StructArray.from_arrays(parts, fields=targets, mask=mask)
        case ListType(element=element):
            offsets, values = list_parts(array)
            return pa.ListArray.from_arrays(offsets, _shown(values, element, wanted.value_type), wanted, mask=mask)
        case MapType(key=key, value=value):
            offsets, keys, items = map_parts(array)
            keys, items = _shown(keys, key, wanted.key_type), _shown(items, value, wanted.item_type)
            return pa.MapArray.from_arrays(offsets, keys, items, wanted, mask=mask)
        case UUIDType():
            return _uuid_text(array)
        case TimestampNanoType() | TimestamptzNanoType():
            # Rounded down, before 1970 too: a cast would cut towards zero.
            nanos = array.cast(pa.int64())
            micros = np.floor_divide(np.asarray(nanos.fill_null(0)), 1000)
            return pa.array(micros, mask=None if mask is None else np.asarray(mask)).cast(wanted)
        case _:
            stored = stored_array(array, t)
            return stored if stored.type.equals(wanted) else stored.cast(wanted)


def _uuid_text(array: pa.Array) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    hexes = [None if v is None else v.hex() for v in storage.to_pylist()]
    texts = [None if h is None else f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}" for h in hexes]
    return pa.array(texts, pa.string())
