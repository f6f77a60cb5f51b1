"""Rows given as dicts, made into Arrow: every key of a row is a column, and the schema tells maps from structs."""

from __future__ import annotations

import datetime as dt
import numbers
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from icecore.engine.data.arrow.arrow_schema import storage_type, type_to_arrow
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    FloatType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    UUIDType,
    children,
    walk,
)


def rows_to_arrow(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pa.Table:
    """A column for each key that any row has, null where a row lacks it; Arrow infers its type from the values.

    If the table's column has maps (given as dicts or pairs) or nested uuids, its type is used instead. Numbers are
    rounded where the table has 32-bit floats. Raises ValidationError where a key is no string, or a value does not fit
    such a column, and Arrow's own errors.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    if wrong := [n for n in names if not isinstance(n, str)]:
        raise ValidationError(f"a column is named by text, found {wrong[0]!r}")
    if not names:
        # Rows without any value are rows all the same, and Arrow's tables without columns lose count of them.
        return pa.table({f.name: pa.nulls(len(rows)) for f in schema.fields[:1]})
    fields = {f.name: f for f in schema.fields}
    return pa.table({n: _column(n, _values(rows, n), fields.get(n)) for n in names})


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """The values of a column, with None for pandas' NaT and NA, which are null in a frame too."""
    found = [row.get(name) for row in rows]
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return found
    not_a_time, not_available = pandas.NaT, pandas.NA
    return [None if v is not_a_time or v is not_available else v for v in found]


def _column(name: str, values: list[Any], field: NestedField | None) -> pa.Array:
    if field is None:
        return _array(name, values)
    kinds = [field.field_type, *(f.field_type for f in walk(children(field.field_type)))]
    has_maps = any(isinstance(t, MapType) for t in kinds)
    # Arrow can't infer the type then: a dict may be a map, and it does not infer nested uuids.
    needs_type = has_maps or any(isinstance(t, UUIDType) for t in kinds[1:])
    if needs_type or any(isinstance(t, FloatType) for t in kinds):
        values = [_prepared(v, field.field_type, field.name) for v in values]
    if not needs_type:
        # Given a type, Arrow would also cast the fields beside floats, even with loss.
        return _array(name, values)
    target = type_to_arrow(field.field_type, with_ids=False)
    return _array(name, values, storage_type(target)).cast(target)


def _array(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    """The values as Arrow, with the nanoseconds of pandas' timestamps, which Arrow by itself cuts to microseconds."""
    array = pa.array(values, kind)
    check_times(values, array.type, name)
    exact = _in_nanoseconds(array.type)
    return pa.array(values, exact) if exact != array.type and any(map(_has_nanoseconds, values)) else array


def check_times(values: Iterable[Any], kind: pa.DataType, path: str) -> None:
    """Raises ValidationError for a value of which Arrow, with `kind` from the values before it, made another time.

    After a date it cuts off the time of a datetime; it drops zones, takes times without one for UTC, and numbers for
    times.
    """
    types = pa.types
    if types.is_struct(kind):
        structs = [v for v in values if isinstance(v, Mapping)]
        for f in kind:
            check_times((v.get(f.name) for v in structs), f.type, f"{path}.{f.name}")
    elif types.is_map(kind):
        pairs = [p for v in values if v is not None for p in v]
        check_times((k for k, _ in pairs), kind.key_type, f"{path}.key")
        check_times((v for _, v in pairs), kind.item_type, f"{path}.value")
    elif types.is_list(kind):
        check_times((x for v in values if v is not None for x in v), kind.value_type, f"{path}.element")
    elif types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        for v in values:
            if not _is_kept(v, kind):
                raise ValidationError(f"column {path!r}: {v!r} among values of Arrow type {kind} would become another")


def _is_kept(value: Any, kind: pa.DataType) -> bool:
    """Whether a value is null or as good in an Arrow type of dates or times as it is."""
    match value:
        case dt.datetime():
            # pandas' NaT, which is null, is a datetime that does not equal itself.
            fits = pa.types.is_timestamp(kind) and (value.tzinfo is None) == (kind.tz is None)
            return bool(fits or value != value)
        case dt.date():
            return bool(pa.types.is_date(kind))
        case dt.time():
            return value.tzinfo is None
        case float():
            return value != value
        case _:
            return isinstance(value, np.datetime64) or not isinstance(value, (numbers.Number, np.generic, UUID))


def _has_nanoseconds(value: Any) -> bool:
    match value:
        case Mapping():
            return any(map(_has_nanoseconds, value.values()))
        case list() | tuple():
            return any(map(_has_nanoseconds, value))
        case _:
            return bool(getattr(value, "nanosecond", 0))


def _in_nanoseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_in_nanoseconds(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_nanoseconds(kind.key_type), _in_nanoseconds(kind.item_type))
    return pa.list_(_in_nanoseconds(kind.value_type)) if pa.types.is_list(kind) else kind


def _prepared(value: Any, of: Type, path: str) -> Any:
    """The value with pairs for maps, bytes for uuids and floats rounded.

    A field that the struct lacks is an error: Arrow would leave it out.
    """
    match of:
        case MapType() if isinstance(value, Mapping):
            return _prepared(list(value.items()), of, path)
        case MapType() if isinstance(value, (list, tuple)):
            return [_pair(pair, of, path) for pair in value]
        case ListType() if isinstance(value, (list, tuple)):
            return [_prepared(v, of.element, f"{path}.element") for v in value]
        case StructType() if isinstance(value, Mapping):
            fields = {f.name: f for f in of.fields}
            for name in value:
                if name not in fields:
                    raise ValidationError(f"no column '{path}.{name}' in the schema; there are: {', '.join(fields)}")
            return {n: _prepared(v, fields[n].field_type, f"{path}.{n}") for n, v in value.items()}
        case UUIDType() if isinstance(value, (str, UUID)):
            return UUID(str(value)).bytes
        case FloatType() if isinstance(value, float):
            return _rounded(value, path)
        case _:
            return value


def _rounded(value: float, path: str) -> float:
    """The float of 32 bits that is nearest to a number."""
    try:
        [found] = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError as e:
        raise ValidationError(f"column {path!r}: {value!r} is too large for a float of 32 bits") from e
    return float(found)


def _pair(pair: Any, of: MapType, path: str) -> tuple[Any, Any]:
    if isinstance(pair, Mapping) and set(pair) == {"key", "value"}:
        pair = (pair["key"], pair["value"])
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ValidationError(f"column {path!r}: a map is a dict or a list of pairs, found the entry {str(pair)[:60]}")
    return _prepared(pair[0], of.key, f"{path}.key"), _prepared(pair[1], of.value, f"{path}.value")
