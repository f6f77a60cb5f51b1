"""DuckDB's rows without the types that only DuckDB has."""

from __future__ import annotations

import pyarrow as pa

from icecore.engine.errors import ValidationError

HUGEINT = pa.decimal128(38, 0)
UBIGINT = pa.decimal128(20, 0)


def plain(rows: pa.Table, owner: str) -> pa.Table:
    """The rows without the types that only DuckDB has: JSON as text, and HUGEINT, which sums are, as a decimal.

    DuckDB is asked for lossless Arrow, for its UUIDs' sake. Raises ValidationError for a number of 39 digits.
    """
    for i, f in enumerate(rows.schema):
        column = rows.column(i)
        if is_hugeint(f.type):
            chunks = [_hugeint_as_decimal(c, f"{owner}: column {f.name!r}") for c in column.chunks]
            rows = rows.set_column(i, pa.field(f.name, HUGEINT), pa.chunked_array(chunks, HUGEINT))
        elif (wanted := plain_type(f.type)) != f.type:
            rows = rows.set_column(i, pa.field(f.name, wanted), column.cast(wanted))
    return rows


def plain_type(t: pa.DataType) -> pa.DataType:
    """The Arrow type for a type that DuckDB gives, at any depth."""
    types = pa.types
    if isinstance(t, pa.Bool8Type):
        return pa.bool_()
    if isinstance(t, pa.JsonType):
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


def _hugeint_as_decimal(array: pa.ExtensionArray, what: str) -> pa.Array:
    """The same 16 bytes, read as the integer that they are."""
    stored = array.storage
    found = pa.Array.from_buffers(HUGEINT, len(stored), stored.buffers(), stored.null_count, stored.offset)
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as e:
        raise ValidationError(f"{what} holds a number of more than 38 digits: {e}") from e
    return found
