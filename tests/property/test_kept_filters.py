"""A filter that is kept is the same filter when it is read again, whatever its columns are called by then."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import orjson
import pytest
from attrs import evolve
from budgets import examples
from hypothesis import given
from test_scan_rows import SCHEMA, filters

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.errors import ExpressionError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.json.stored_expression import from_kept, to_kept, value_to_kept
from icecore.engine.expression.nodes import And, Expression, Or, Predicate, PredicateOperator, Reference
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.expression.sql.sql_text import expression_text
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    Type,
    UUIDType,
)

TYPES: list[Type] = [
    IntegerType(),
    FloatType(),
    DoubleType(),
    DecimalType(9, 2),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    TimestampNanoType(),
    StringType(),
    UUIDType(),
    BinaryType(),
    FixedType(2),
    StructType((NestedField(30, "in ner", StringType()), NestedField(31, "select", IntegerType()))),
]
SCHEMA_OF_ALL = Schema(tuple(NestedField(i, f"c{i}", t) for i, t in enumerate(TYPES, 1)))


@examples(150)
@given(text=filters)
def test_any_filter_is_read_as_it_was_written(text: str) -> None:
    schema = arrow_to_schema(SCHEMA, format_version=2)
    check(parse_filter(text), schema)
    assert expression_text(bind(parse_filter(text), schema))


def check(expression: Expression, schema: Schema) -> None:
    """Unbound and bound, under the same names and under others."""
    bound = bind(expression, schema)
    fields = tuple(evolve(f, name=f"{f.name} of old") for f in schema.fields)
    renamed = Schema(fields, schema.schema_id)
    for e in (expression, bound):
        kept = orjson.loads(orjson.dumps(to_kept(e, schema)))
        assert repr(bind(from_kept(kept, schema), schema)) == repr(bound)
        again = to_kept(bind(from_kept(kept, renamed), renamed), renamed)
        assert without_names(again) == without_names(to_kept(bound, schema))


def without_names(kept: Any) -> Any:
    if isinstance(kept, list):
        return [without_names(k) for k in kept]
    return {k: v for k, v in kept.items() if k != "column"} if isinstance(kept, dict) else kept


@pytest.mark.parametrize(
    "text",
    [
        "c1 IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
        "c2 = 1.1 OR c2 >= 'Infinity'",
        "c3 < 0.1 AND NOT isnan(c3)",
        "c4 <> -12.34",
        "c5 >= DATE '0001-01-01' AND c5 < DATE '9999-12-31'",
        "c6 = TIME '01:02:03.000004'",
        "c7 > TIMESTAMP '2024-01-01 00:00:00.123456'",
        "c8 > '2024-01-01T00:00:00+00:00'",
        "c9 < '2024-01-01T00:00:00.123456789'",
        "c10 = 'it''s' OR c10 LIKE 'a%b_' OR c10 NOT LIKE '%x' OR c10 LIKE 'a\\_%c' ESCAPE '\\'",
        "c10 NOT LIKE 'ab%' AND c10 IS NOT NULL",
        "c11 = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
        "c12 = X'00FF' OR c13 IN (X'0000', X'FFFF')",
        'c14."in ner" = \'x\' AND c14."select" > 4 AND c14 IS NOT NULL',
        "bucket(16, c1) = 3",
        "TRUE",
        "FALSE",
    ],
)
def test_every_type_and_operator_is_read_as_it_was_written(text: str) -> None:
    check(parse_filter(text), SCHEMA_OF_ALL)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (1, 2**70),
        (1, np.int64(-3)),
        (2, np.float32(0.1)),
        (3, float("nan")),
        (3, -0.0),
        (3, 5e-324),
        (4, Decimal("-12.340")),
        (5, dt.date(1, 1, 1)),
        (5, dt.datetime(2024, 1, 1, 12)),
        (6, dt.time(1, 2, 3, 4)),
        (7, dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
        (8, dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=45)))),
        (9, np.datetime64("2024-01-01T00:00:00.123456789")),
        (10, "it's \U0010ffff"),
        (11, UUID(int=5)),
        (12, b"\x00\xff"),
        (1, None),
    ],
)
def test_values_of_python_are_kept(column: int, value: Any) -> None:
    """As they were given, with their types and zones."""
    for op in (PredicateOperator.EQ, PredicateOperator.LT, PredicateOperator.NOT_EQ):
        check(Predicate(op, Reference(f"c{column}"), (value,)), SCHEMA_OF_ALL)


def test_values_of_different_kinds_are_told_apart() -> None:
    """Those that Python holds equal too; a NaN is one value."""
    moment = dt.datetime(2024, 1, 1)
    values = [None, 1, True, "1", 1.0, Decimal("1"), b"1", 0.0, -0.0, "", b"", moment, moment.date(), float("nan")]
    texts = [orjson.dumps(value_to_kept(v)) for v in values]
    assert len(set(texts)) == len(values)
    assert orjson.dumps(value_to_kept(-float("nan"))) == texts[-1]


def test_long_chains_and_wrong_values() -> None:
    leaves = [parse_filter(f"c1 = {i}") for i in range(3000)]
    chain = leaves[0]
    for leaf in leaves[1:]:
        chain = Or((chain, leaf))
    check(chain, SCHEMA_OF_ALL)
    deep = leaves[0]
    for i, leaf in enumerate(leaves[1:200]):
        deep = Or((deep, leaf)) if i % 2 else And((deep, leaf))
    with pytest.raises(ExpressionError, match="deep"):
        to_kept(deep, SCHEMA_OF_ALL)
    good = to_kept(leaves[0], SCHEMA_OF_ALL)
    for wrong in (None, 3, [], ["xor", True], {}, {**good, "op": "?"}, {**good, "literals": [["int", "x"]]}):
        with pytest.raises(ExpressionError):
            from_kept(wrong, SCHEMA_OF_ALL)
    with pytest.raises(ExpressionError, match=r"'c1' \(id 1\) is gone"):
        from_kept(good, Schema(SCHEMA_OF_ALL.fields[1:]))
    with pytest.raises(ExpressionError, match="nothing"):
        to_kept(parse_filter("nothing = 1"), SCHEMA_OF_ALL)
    with pytest.raises(ExpressionError, match="object"):
        to_kept(Predicate(PredicateOperator.EQ, Reference("c1"), (object(),)), SCHEMA_OF_ALL)
