"""Types, values of them, and rows of columns of them, drawn by Hypothesis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.arrow_values import to_array
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    Type,
    UUIDType,
)

INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


def scaled(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    return st.integers(-top, top).map(lambda u: single_value.unscaled_to_decimal(u, scale))


PRIMITIVES: list[tuple[PrimitiveType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), INT),
    (LongType(), LONG),
    (FloatType(), st.floats(width=32, allow_nan=False)),
    (DoubleType(), st.floats(allow_nan=False)),
    (DecimalType(9, 2), scaled(9, 2)),
    (DecimalType(18, 0), scaled(18, 0)),
    (DecimalType(38, 10), scaled(38, 10)),
    (DateType(), INT),
    (TimeType(), st.integers(0, 86_399_999_999)),
    (TimestampType(), LONG),
    (TimestamptzType(), LONG),
    (TimestampNanoType(), LONG),
    (TimestamptzNanoType(), LONG),
    (StringType(), st.text(max_size=24)),
    (UUIDType(), st.uuids()),
    (FixedType(3), st.binary(min_size=3, max_size=3)),
    (BinaryType(), st.binary(max_size=24)),
]
VALUES = dict(PRIMITIVES)
PRIMITIVE_TYPES = st.sampled_from([t for t, _ in PRIMITIVES])


@st.composite
def types(draw: st.DrawFn, ids: Iterator[int], depth: int) -> Type:
    kind = draw(st.sampled_from(["primitive"] * 3 + ["struct", "list", "map"])) if depth else "primitive"
    match kind:
        case "struct":
            return StructType(draw(fields(ids, depth - 1)))
        case "list":
            return ListType(next(ids), draw(types(ids, depth - 1)), draw(st.booleans()))
        case "map":
            return MapType(
                next(ids), draw(PRIMITIVE_TYPES), next(ids), draw(types(ids, depth - 1)), draw(st.booleans())
            )
        case _:
            return draw(PRIMITIVE_TYPES)


@st.composite
def fields(draw: st.DrawFn, ids: Iterator[int], depth: int) -> tuple[NestedField, ...]:
    count = draw(st.integers(1, 4))
    return tuple(NestedField(next(ids), f"c{i}", draw(types(ids, depth)), draw(st.booleans())) for i in range(count))


def values(t: Type) -> st.SearchStrategy[Any]:
    """Internal values of a type."""
    match t:
        case StructType(fields=inner):
            return st.fixed_dictionaries({f.field_id: optional(f.field_type, f.required) for f in inner})
        case ListType():
            return st.lists(optional(t.element, t.element_required), max_size=3)
        case MapType():
            pairs = st.tuples(values(t.key), optional(t.value, t.value_required))
            return st.lists(pairs, max_size=3, unique_by=lambda p: repr(p[0]))
        case _:
            return VALUES[t]


def optional(t: Type, required: bool) -> st.SearchStrategy[Any]:
    return values(t) if required else st.one_of(st.none(), values(t))


@st.composite
def tables(draw: st.DrawFn, depth: int = 2) -> tuple[Schema, list[dict[int, Any]]]:
    schema = Schema(draw(fields(itertools.count(1), depth)))
    return schema, draw(st.lists(values(schema.as_struct()), min_size=1, max_size=12))


def arrow(schema: Schema, rows: list[dict[int, Any]], *, with_ids: bool = True) -> pa.Table:
    columns = [to_array(f.field_type, [r[f.field_id] for r in rows], with_ids=with_ids) for f in schema.fields]
    return pa.table(columns, schema=schema_to_arrow(schema, with_ids=with_ids))
