"""Rows in Arrow as Spark gives them, with the names and types that a table can take: `conform_frame` for tasks.

Casts that Arrow makes without loss are left to `engine/data/write/conform.py`; here are the rest of Spark's store
assignment, and names that differ in case.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.errors import ValidationError
from icecore.engine.formats import arrays
from icecore.engine.spark.spark_times import times_from_longs
from icecore.engine.spark_source.session_zone import offsets, session_zone
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    DoubleType,
    FloatType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    Type,
)

_US = pa.timestamp("us")
# Zones are less than a day from UTC.
_FARTHEST_US = 2**63 - 2 * 86_400_000_000


def assigned(batch: pa.RecordBatch, schema: Schema, zone: str | None) -> pa.RecordBatch:
    """The batch, whose columns were checked by `check_conforms`, as a table of that schema can take it.

    `zone` is the session's, in which dates and timestamps without zone become instants and the reverse. Raises
    ValidationError where it is needed and not known, for an integer that is no time of day, and for dates and
    timestamps that are too far away.
    """
    fields = _fields(batch.schema.names, schema.fields)
    columns = [_assigned(a, f.field_type, zone, f.name) for a, f in zip(batch.columns, fields, strict=True)]
    return times_from_longs(pa.RecordBatch.from_arrays(columns, names=[f.name for f in fields]), schema)


def _fields(names: Sequence[str], fields: Sequence[NestedField]) -> list[NestedField]:
    """The fields of these names, else of their names in another case."""
    exact = {f.name: f for f in fields}
    lower = {f.name.lower(): f for f in fields}
    return [exact.get(name) or lower[name.lower()] for name in names]


def _assigned(array: pa.Array, t: Type, zone: str | None, path: str) -> pa.Array:
    mask = null_mask(array)
    match t:
        case StructType(fields=fields) if pa.types.is_struct(array.type):
            names = [f.name for f in array.type]
            wanted = _fields(names, fields)
            children = zip(struct_children(array), wanted, strict=True)
            parts = [_assigned(a, f.field_type, zone, f"{path}.{f.name}") for a, f in children]
            return pa.StructArray.from_arrays(parts, names=[f.name for f in wanted], mask=mask) if parts else array
        case ListType(element=element) if pa.types.is_list(array.type):
            offsets, values = list_parts(array)
            return pa.ListArray.from_arrays(offsets, _assigned(values, element, zone, f"{path}.element"), mask=mask)
        case MapType(key=key, value=value) if pa.types.is_map(array.type):
            offsets, keys, items = map_parts(array)
            keys, items = _assigned(keys, key, zone, f"{path}.key"), _assigned(items, value, zone, f"{path}.value")
            return pa.MapArray.from_arrays(offsets, keys, items, type=pa.map_(keys.type, items.type), mask=mask)
        case FloatType() | DoubleType() if not pa.types.is_null(array.type):
            # Arrow's own cast of decimals is not to the nearest; that of their text is.
            numbers = array.cast(pa.string()) if pa.types.is_decimal(array.type) else array
            return numbers.cast(pa.float32() if isinstance(t, FloatType) else pa.float64(), safe=False)
        case TimestampType() | TimestampNanoType():
            return _local(array, zone, path)
        case TimestamptzType() | TimestamptzNanoType():
            return _instants(array, zone, path)
        case _:
            return array


def _local(array: pa.Array, zone: str | None, path: str) -> pa.Array:
    if pa.types.is_date(array.type):
        return _midnights(array, path)
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        _check_near(array, path)
        return _moved(array, _known(zone, path), _US, are_local=False)
    return array


def _instants(array: pa.Array, zone: str | None, path: str) -> pa.Array:
    if pa.types.is_date(array.type):
        array = _midnights(array, path)
    if not pa.types.is_timestamp(array.type) or array.type.tz is not None:
        return array
    _check_near(array, path)
    return _moved(array, _known(zone, path), pa.timestamp("us", "UTC"), are_local=True)


def _moved(array: pa.Array, zone: dt.tzinfo, t: pa.DataType, *, are_local: bool) -> pa.Array:
    """Local times as instants, or the reverse."""
    missing = arrays.to_mask(array.is_null()) if array.null_count else None
    times = arrays.to_numbers(array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).fill_null(0))
    by = offsets(times, zone, are_local=are_local)
    return arrays.numbers(times - by if are_local else times + by, missing=missing).cast(t)


def _midnights(dates: pa.Array, path: str) -> pa.Array:
    try:
        return dates.cast(_US)
    except pa.ArrowInvalid as e:
        raise ValidationError(f"column {path!r}: a date is too far away for a timestamp") from e


def _check_near(array: pa.Array, path: str) -> None:
    """Raises ValidationError for timestamps so far away that they might overflow in another zone."""
    extremes = pc.min_max(array.cast(pa.int64())).as_py()
    if any(v is not None and abs(v) > _FARTHEST_US for v in extremes.values()):
        raise ValidationError(f"column {path!r}: a timestamp is too far away to be converted to another zone")


def _known(zone: str | None, path: str) -> dt.tzinfo:
    if not zone:
        raise ValidationError(
            f"column {path!r} needs the session's time zone: set spark.sql.session.timeZone, or cast the column"
        )
    try:
        return session_zone(zone)
    except ValidationError as e:
        raise ValidationError(f"column {path!r}: {e}") from e
