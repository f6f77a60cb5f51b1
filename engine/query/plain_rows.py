"""DuckDB's rows without the types that only DuckDB has."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa

from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import ROWS_AT_HAND
from icecore.engine.queries.named_queries import query

HUGEINT = pa.decimal128(38, 0)
UBIGINT = pa.decimal128(20, 0)
_SQL = "query/plain_rows.sql"
_VALUES, _VALUE = "duckdb_values", "value"


def plain(rows: pa.Table, owner: str) -> pa.Table:
    """The rows without types that only DuckDB has, at any depth: HUGEINT, which sums are, as decimals, others as text.

    DuckDB is asked for lossless Arrow, for its UUIDs' sake. Raises ValidationError for a number of 39 digits.
    """
    for i, f in enumerate(rows.schema):
        if (wanted := plain_type(f.type)) != f.type:
            chunks = [_plain(c, wanted, f"{owner}: column {f.name!r}") for c in rows.column(i).chunks]
            rows = rows.set_column(i, pa.field(f.name, wanted), pa.chunked_array(chunks, wanted))
    return rows


def plain_type(t: pa.DataType) -> pa.DataType:
    """The Arrow type for a type that DuckDB gives, at any depth."""
    types = pa.types
    if isinstance(t, pa.Bool8Type):
        return pa.bool_()
    if is_hugeint(t):
        return HUGEINT
    if isinstance(t, pa.JsonType | pa.OpaqueType):
        return pa.string()
    if t == pa.uint64():
        return UBIGINT
    if types.is_struct(t):
        return pa.struct([_plain_field(f) for f in t])
    if types.is_map(t):
        return pa.map_(_plain_field(t.key_field), _plain_field(t.item_field))
    if types.is_list(t):
        return pa.list_(_plain_field(t.value_field))
    if types.is_fixed_size_list(t):
        return pa.list_(_plain_field(t.value_field), t.list_size)
    return t


def _plain_field(f: pa.Field) -> pa.Field:
    return f.with_type(plain_type(f.type))


def is_hugeint(t: pa.DataType) -> bool:
    """Whether an Arrow type is DuckDB's HUGEINT."""
    return isinstance(t, pa.OpaqueType) and t.type_name == "hugeint"


def _plain(array: pa.Array, wanted: pa.DataType, what: str) -> pa.Array:
    t = array.type
    if is_hugeint(t):
        return _hugeint_as_decimal(array, what)
    if isinstance(t, pa.OpaqueType):
        return _as_text(array)
    if not pa.types.is_nested(t) or t == wanted:
        return array.cast(wanted)
    if pa.types.is_struct(t):
        parts = [_plain(c, f.type, what) for c, f in zip(struct_children(array), wanted, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=null_mask(array))
    if pa.types.is_map(t):
        offsets, keys, items = map_parts(array)
        entries = _plain(keys, wanted.key_type, what), _plain(items, wanted.item_type, what)
        return pa.MapArray.from_arrays(offsets, *entries, wanted, mask=null_mask(array))
    if pa.types.is_fixed_size_list(t):
        values = array.values.slice(array.offset * t.list_size, len(array) * t.list_size)
        return pa.FixedSizeListArray.from_arrays(
            _plain(values, wanted.value_type, what), type=wanted, mask=null_mask(array)
        )
    offsets, elements = list_parts(array)
    return pa.ListArray.from_arrays(offsets, _plain(elements, wanted.value_type, what), wanted, mask=null_mask(array))


def _as_text(array: pa.ExtensionArray) -> pa.Array:
    """The values as DuckDB spells them."""
    with closing(ROWS_AT_HAND.connect()) as con, duck.registered(con, _VALUES, pa.table({_VALUE: array})):
        return duck.arrow(con, query(_SQL, "texts", rows=_VALUES)).column(0).combine_chunks().cast(pa.string())


def _hugeint_as_decimal(array: pa.ExtensionArray, what: str) -> pa.Array:
    """The same 16 bytes, read as the integer that they are."""
    stored = array.storage
    found = pa.Array.from_buffers(HUGEINT, len(stored), stored.buffers(), stored.null_count, stored.offset)
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as e:
        raise ValidationError(f"{what} holds a number of more than 38 digits: {e}") from e
    return found
