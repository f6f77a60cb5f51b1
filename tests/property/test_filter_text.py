"""A filter written down as text is the same filter when it is read again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from test_scan_rows import SCHEMA, filters

from icecore.engine.data.arrow_schema import arrow_to_schema
from icecore.engine.expression.bind import bind
from icecore.engine.expression.parse import parse_filter
from icecore.engine.expression.text import expression_text, filter_text
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


@settings(max_examples=150, deadline=None)
@given(text=filters)
def test_any_filter_is_read_as_it_was_written(text: str) -> None:
    schema = arrow_to_schema(SCHEMA, format_version=2)
    bound = bind(parse_filter(text), schema)
    again = filter_text(bound, schema)
    assert bind(parse_filter(again), schema) == bound
    assert expression_text(bound)


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
    bound = bind(parse_filter(text), SCHEMA_OF_ALL)
    assert bind(parse_filter(filter_text(bound, SCHEMA_OF_ALL)), SCHEMA_OF_ALL) == bound
