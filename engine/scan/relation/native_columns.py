"""Columns of Parquet files that DuckDB reads itself: which ones, and as what.

Spec: Column Projection (P1), Schema Evolution (T7). A column is found by its field id and read by the name that it has
in the file; where DuckDB would give another type or value than the reader of this engine, it is not read by DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from icecore.engine.common.text import ascii_lower
from icecore.engine.spec.reserved import FILE, LINEAGE, METADATA_COLUMNS, PARTITION_ID, POS, ROW_ID, SPEC_ID
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    Type,
    UUIDType,
    children,
)

_TYPES: Mapping[type[Type], str] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    DateType: "DATE",
    TimeType: "TIME",
    TimestampType: "TIMESTAMP",
    TimestamptzType: "TIMESTAMP WITH TIME ZONE",
    TimestampNanoType: "TIMESTAMP_NS",
    StringType: "VARCHAR",
    UUIDType: "UUID",
    FixedType: "BLOB",
    BinaryType: "BLOB",
}
_PROMOTIONS = {("INTEGER", "BIGINT"), ("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP")}
_RESERVED = {PARTITION_ID, *(f.field_id for f in METADATA_COLUMNS.values())}
_OF_FILE = {PARTITION_ID, FILE.field_id, SPEC_ID.field_id}
_LINEAGE = {f.field_id for f in LINEAGE}


@frozen
class FileColumn:
    """A top-level column of a file: its name there, with DuckDB's `type`, or the type that the engine has `written`.

    Nested columns have only the latter, all others only the former; both are None where DuckDB should not read it.
    """

    name: str
    type: str | None
    written: Type | None = None


FileColumns = Mapping[int, FileColumn]
"""The columns of a file by field id."""


@frozen
class Read:
    """A column that is read by its name in the file, as another type of DuckDB where one is named."""

    name: str
    cast_to: str | None = None


@frozen
class Given:
    """A column that the file lacks: the same value in all rows, null where it is None."""

    value: Any


@frozen
class OfFile:
    """A column with one value for each file, to which the position of a row is added if `by_position`.

    `stored` names the file's own column, whose values, where not null, are taken instead.
    """

    stored: str | None = None
    by_position: bool = False


@frozen
class RowPosition:
    """The place of a row in its file."""


NativeColumn = Read | Given | OfFile | RowPosition


def duckdb_type(t: Type) -> str | None:
    """DuckDB's type of a primitive column; None for nested types, and where its reader is not relied upon."""
    if isinstance(t, DecimalType):
        return f"DECIMAL({t.precision},{t.scale})"
    return _TYPES.get(type(t))


def is_native(t: Type) -> bool:
    """Whether DuckDB reads a type, and all types nested in it, as this engine does."""
    inside = children(t)
    if not inside:
        return duckdb_type(t) is not None
    return all(is_native(f.field_type) for f in inside)


def file_columns(fields: Iterable[NestedField]) -> FileColumns | None:
    """The columns of files that were written with these fields; None where DuckDB can't tell their names apart."""
    fields = tuple(fields)
    if len({ascii_lower(f.name) for f in fields}) < len(fields):
        return None
    return {f.field_id: _written(f) for f in fields}


def _written(f: NestedField) -> FileColumn:
    return FileColumn(f.name, duckdb_type(f.field_type), f.field_type if children(f.field_type) else None)


def native_column(field: NestedField, columns: FileColumns, identity: Mapping[int, Any]) -> NativeColumn | None:
    """The way in which DuckDB makes an expected column from a file with these columns; None where it should not.

    `identity` are the values of identity partition fields, for files that lack these columns.
    """
    if not is_native(field.field_type):
        return None
    if field.field_id in _RESERVED:
        return _metadata_column(field.field_id, columns)
    found = columns.get(field.field_id)
    if found is not None:
        return _read(field.field_type, found)
    if field.field_id in identity:
        return Given(identity[field.field_id])
    if field.required and field.initial_default is None:
        return None
    return Given(field.initial_default)


def _metadata_column(field_id: int, columns: FileColumns) -> NativeColumn | None:
    """A metadata column; `_deleted` is left to the reader of this engine, as it asks for deleted rows too."""
    if field_id in _OF_FILE:
        return OfFile()
    if field_id == POS.field_id:
        return RowPosition()
    stored = columns.get(field_id)
    if field_id not in _LINEAGE or (stored is not None and stored.type != "BIGINT"):
        return None
    return OfFile(None if stored is None else stored.name, by_position=field_id == ROW_ID.field_id)


def _read(wanted: Type, found: FileColumn) -> Read | None:
    if found.written is not None:
        return Read(found.name) if _same_inside(found.written, wanted) else None
    target = duckdb_type(wanted)
    if target is None or found.type is None:
        return None
    if found.type == target:
        return Read(found.name)
    promoted = (found.type, target) in _PROMOTIONS or _widens(found.type, wanted)
    return Read(found.name, target) if promoted else None


def _widens(source: str, wanted: Type) -> bool:
    """Whether a decimal type is promoted: to a larger precision, with the same scale."""
    if not isinstance(wanted, DecimalType) or not source.startswith("DECIMAL("):
        return False
    precision, _, scale = source.removeprefix("DECIMAL(").removesuffix(")").partition(",")
    return int(precision) < wanted.precision and int(scale) == wanted.scale


def _same_inside(written: Type, wanted: Type) -> bool:
    """Whether two types have the same fields, by id, name and type at any depth."""
    inner, expected = children(written), children(wanted)
    if type(written) is not type(wanted) or len(inner) != len(expected):
        return False
    if not inner:
        return written == wanted
    return all(
        a.field_id == b.field_id and a.name == b.name and _same_inside(a.field_type, b.field_type)
        for a, b in zip(inner, expected, strict=True)
    )
