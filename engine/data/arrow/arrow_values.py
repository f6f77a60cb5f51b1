"""Internal values (see `single_value`) as Arrow scalars and arrays, and the reverse.

Integers pass through as integers, because dates and timestamps of real tables lie outside of what datetime can hold.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from icecore.engine.data.arrow.arrow_schema import storage_type, type_to_arrow
from icecore.engine.errors import ValidationError
from icecore.engine.spec.types import (
    TIMESTAMP_TYPES,
    DateType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimeType,
    Type,
    UnknownType,
    UUIDType,
)

_LONG_BACKED = (TimeType, *TIMESTAMP_TYPES)


def to_array(iceberg_type: Type, values: list[Any], *, with_ids: bool = True, writing: bool = False) -> pa.Array:
    """Internal values as an Arrow array of the type's Arrow form. Raises ValidationError for one that doesn't fit.

    Fields that the value of a struct lacks take their initial default, or with `writing` their write default (T9).
    """
    arrow_type = type_to_arrow(iceberg_type, with_ids=with_ids)
    try:
        plain = [_to_python(iceberg_type, v, writing) for v in values]
        return pa.array(plain, storage_type(arrow_type)).cast(arrow_type)
    except (pa.ArrowException, OverflowError, TypeError, AttributeError) as e:
        raise ValidationError(f"{values[:3]!r} are not values of type {iceberg_type}: {e}") from e


def constant_array(
    iceberg_type: Type, value: Any, length: int, *, with_ids: bool = True, writing: bool = False
) -> pa.Array:
    """An array that repeats one internal value, or nulls for None; see `to_array`."""
    arrow_type = type_to_arrow(iceberg_type, with_ids=with_ids)
    if value is None:
        return pa.nulls(length, arrow_type)
    one = to_array(iceberg_type, [value], with_ids=with_ids, writing=writing)
    return one.take(pa.nulls(length, pa.int64()).fill_null(0))


def from_array(iceberg_type: PrimitiveType, array: pa.Array) -> list[Any]:
    """The internal values of an array of the type's Arrow form; null is None."""
    match iceberg_type:
        case DateType():
            return list(array.cast(pa.int32()).to_pylist())
        case UUIDType():
            storage = array.storage if isinstance(array.type, pa.UuidType) else array
            return [None if v is None else uuid.UUID(bytes=v) for v in storage.to_pylist()]
        case _ if isinstance(iceberg_type, _LONG_BACKED):
            return list(array.cast(pa.int64()).to_pylist())
        case _:
            return list(array.to_pylist())


def _to_python(iceberg_type: Type, value: Any, writing: bool) -> Any:
    if value is None:
        return None
    match iceberg_type:
        case UUIDType():
            return value.bytes
        case UnknownType():
            raise ValidationError("a column of type unknown has no values")
        case StructType(fields=fields):
            return {f.name: _to_python(f.field_type, _field_value(f, value, writing), writing) for f in fields}
        case ListType(element=element):
            return [_to_python(element, v, writing) for v in value]
        case MapType(key=key, value=item):
            return [(_to_python(key, k, writing), _to_python(item, v, writing)) for k, v in value]
        case _:
            return value


def _field_value(f: NestedField, struct: Mapping[int, Any], writing: bool) -> Any:
    return struct.get(f.field_id, f.write_default if writing else f.initial_default)
