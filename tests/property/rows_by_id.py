"""Rows under the ids of their columns, and how a schema shows them: what a model knows without a look at files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

# The values that columns have, by type.
POOLS: dict[type[Any], list[Any]] = {
    IntegerType: [None, 0, 1, 2, 7],
    LongType: [None, 0, 1, 2, 7],
    FloatType: [None, 0.0, -0.0, 1.5, float("nan")],
    DoubleType: [None, 0.0, -0.0, 1.5, float("nan")],
    StringType: [None, "", "a", "b"],
    DecimalType: [None, Decimal("0.00"), Decimal("1.50")],
    DateType: [None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    TimestampType: [None, dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 12)],
}
Values = dict[int, Any]


def visible(values: Mapping[int, Any], fields: Iterable[NestedField]) -> Values:
    """A row, or a struct, as these fields show it: by their ids and types, what it never had by the default (T9)."""
    out: Values = {}
    for f in fields:
        value = values.get(f.field_id, f.initial_default)
        if isinstance(f.field_type, StructType) and value is not None:
            value = visible(value, f.field_type.fields)
        elif isinstance(f.field_type, TimestampType) and type(value) is dt.date:
            value = dt.datetime.combine(value, dt.time())
        out[f.field_id] = value
    return out


def named(values: Mapping[int, Any], fields: Iterable[NestedField]) -> dict[str, Any]:
    """A visible row under the names of the fields."""
    nested = ((f, values[f.field_id]) for f in fields)
    return {
        f.name: named(v, f.field_type.fields) if isinstance(f.field_type, StructType) and v is not None else v
        for f, v in nested
    }


def text(value: Any) -> str:
    """A value as text that tells all that differ; floats by their bits, all NaN as one."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {text(v)}" for k, v in value.items()) + "}"
    return value.hex() if isinstance(value, float) else repr(value)


def texts(found: pa.Table, schema: Schema) -> list[str]:
    """The rows that were read, in their order, by the columns of a schema."""
    return [text(row) for row in found.select([f.name for f in schema.fields]).to_pylist()]


def leaves(fields: Iterable[NestedField], above: tuple[NestedField, ...] = ()) -> list[tuple[NestedField, ...]]:
    """The primitive columns as paths."""
    out = []
    for f in fields:
        out += leaves(f.field_type.fields, (*above, f)) if isinstance(f.field_type, StructType) else [(*above, f)]
    return out


def condition(schema: Schema, choice: int) -> tuple[str, Callable[[Values], bool]]:
    """One of the conditions on a schema's columns, as text and as a function of a visible row."""
    paths = leaves(schema.fields)
    path, kind = paths[choice % len(paths)], choice // len(paths)
    name = ".".join(f.name for f in path)
    some = [v for v in POOLS[type(path[-1].field_type)] if v is not None and v == v]

    def value(row: Values) -> Any:
        for f in path:
            if row is None:
                return None
            row = row[f.field_id]
        return row

    literal = some[kind % len(some)]
    if kind % 4 == 0:
        return f"{name} = {sql(literal)}", lambda row: value(row) == literal
    if kind % 4 == 1:
        return f"{name} < {sql(literal)}", lambda row: value(row) is not None and value(row) < literal
    if kind % 4 == 2:
        return f"{name} IS NULL", lambda row: value(row) is None
    return f"{name} IS NOT NULL", lambda row: value(row) is not None


def sql(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
