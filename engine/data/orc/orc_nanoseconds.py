"""Stripes of ORC files with timestamps beyond 64-bit nanoseconds, which Arrow refuses to read and pyorc reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from icecore.engine.errors import CorruptFileError

_NS_MIN, _NS_MAX = -(2**63), 2**63 - 1


def stripe_batches(
    source: pa.NativeFile, where: str, schema: pa.Schema, names: list[str], stripe: int, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one stripe. `names` are top-level columns in the order of the file's Arrow schema.

    Timestamps are in nanoseconds if all of a batch fit, else in microseconds, rounded down. pyorc gives maps as dicts,
    so only the last value of equal keys is kept; 0.0 and -0.0 are equal. Raises CorruptFileError.
    """
    fields = [schema.field(n) for n in names]
    converters = {
        pyorc.TypeKind.TIMESTAMP: _Nanoseconds,
        pyorc.TypeKind.TIMESTAMP_INSTANT: _Nanoseconds,
        pyorc.TypeKind.DATE: _Days,
    }
    try:
        reader = pyorc.Reader(
            source,
            column_indices=map(schema.get_field_index, names),
            struct_repr=pyorc.StructRepr.TUPLE,
            converters=converters,
        ).read_stripe(stripe)
        while rows := reader.read(batch_rows):
            columns = [_array([r[i] for r in rows], f.type) for i, f in enumerate(fields)]
            yield pa.RecordBatch.from_arrays(columns, names=names)
    except (pyorc.errors.ORCError, RuntimeError, ValueError, TypeError, pa.ArrowException) as e:
        raise CorruptFileError(f"{where}: stripe {stripe} can't be decoded: {e}") from e


class _Nanoseconds(ORCConverter):
    """Instants as nanoseconds since 1970, of any size."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> int:
        return seconds * 1_000_000_000 + nanoseconds

    @staticmethod
    def to_orc(*args: Any) -> Any:
        raise NotImplementedError


class _Days(ORCConverter):
    """Dates as days since 1970, because Python's `date` ends at the year 9999."""

    @staticmethod
    def from_orc(days: int) -> int:
        return days

    @staticmethod
    def to_orc(*args: Any) -> Any:
        raise NotImplementedError


def _array(values: list[Any], t: pa.DataType) -> pa.Array:
    if pa.types.is_struct(t):
        parts = [_array([None if v is None else v[i] for v in values], f.type) for i, f in enumerate(t)]
        fields = [f.with_type(p.type) for f, p in zip(t, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=_mask(values))
    if pa.types.is_map(t):
        keys = _array([k for v in values for k in v or ()], t.key_type)
        items = _array([x for v in values for x in (v or {}).values()], t.item_type)
        target = pa.map_(t.key_field.with_type(keys.type), t.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target, mask=_mask(values))
    if pa.types.is_list(t):
        elements = _array([x for v in values for x in v or ()], t.value_type)
        target = pa.list_(t.value_field.with_type(elements.type))
        return pa.ListArray.from_arrays(_offsets(values), elements, type=target, mask=_mask(values))
    if pa.types.is_timestamp(t):
        return _times(values, t.tz)
    if pa.types.is_date(t):
        return pa.array(values, pa.int32()).cast(t)
    return pa.array(values, t)


def _times(values: list[int | None], zone: str | None) -> pa.Array:
    if all(v is None or _NS_MIN <= v <= _NS_MAX for v in values):
        return pa.array(values, pa.int64()).cast(pa.timestamp("ns", zone))
    micros = [None if v is None else v // 1000 for v in values]
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", zone))


def _mask(values: list[Any]) -> pa.Array:
    return pa.array([v is None for v in values], pa.bool_())


def _offsets(values: list[Any]) -> pa.Array:
    return pa.array(np.cumsum([0, *(len(v or ()) for v in values)]), pa.int32())
