"""Filters as DuckDB SQL: values as parameters, long lists, types that DuckDB and Python see differently."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from icecore.engine.data.arrow.arrow_schema import type_to_arrow
from icecore.engine.data.arrow.row_filter import _values, keep_rows
from icecore.engine.errors import ExpressionError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.build import EqualTo, GreaterThan, In, LessThan, NotIn
from icecore.engine.expression.nodes import Expression, TypedValue
from icecore.engine.expression.sql.duckdb_sql import INLINE_LITERALS, to_sql
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

COLUMNS: dict[PrimitiveType, str] = {
    LongType(): "range::BIGINT",
    StringType(): "range::VARCHAR",
    DecimalType(9, 2): "(range / 4)::DECIMAL(9, 2)",
    DateType(): "range::INTEGER - 31",
    TimeType(): "range::BIGINT",
    TimestampType(): "range::BIGINT - 50",
    UUIDType(): "('00000000-0000-0000-0000-' || lpad(range::VARCHAR, 12, '0'))::UUID",
}


@pytest.mark.parametrize("column_type", list(COLUMNS), ids=str)
@pytest.mark.parametrize("size", [3, INLINE_LITERALS, INLINE_LITERALS + 1, 60])
def test_in_lists_of_any_length(column_type: PrimitiveType, size: int) -> None:
    """IN and NOT IN select the same rows as one parameter each and as a table."""
    schema = Schema((NestedField(1, "c", column_type),))
    with duckdb.connect() as c:
        c.execute(f"CREATE TABLE t AS SELECT range AS i, {COLUMNS[column_type]} AS c FROM range(100)")
        c.execute("INSERT INTO t VALUES (100, NULL)")
        numbers = list(range(0, 3 * size, 3))[: min(size, 33)] + [1000 + i for i in range(max(size - 33, 0))]
        literals = [TypedValue(column_type, v) for v in internal(column_type, numbers)]
        for text, wanted in (("IN", {n for n in numbers if n < 100}), ("NOT", set(range(100)) - set(numbers))):
            e = In("c", literals) if text == "IN" else bind(parse_filter("NOT TRUE"), schema)
            if text == "NOT":
                e = NotIn("c", literals)
            parameters: dict[str, Any] = {}

            def listed(values: tuple[Any, ...]) -> str:
                c.register("listed", _values(type(values[0]).__name__, values))
                return "listed"

            sql = to_sql(bind(e, schema), lambda t: f'"{t.name}"', parameters, listed=listed)
            assert {i for (i,) in c.execute(f"SELECT i FROM t WHERE {sql}", parameters).fetchall()} == wanted
            assert len(parameters) == (size if size <= INLINE_LITERALS else 0)


def test_rows_are_selected_by_their_places_however_many_there_are() -> None:
    """DuckDB gives the answer for a list of values in any order, once several threads have rows."""
    schema = Schema((NestedField(1, "c", LongType()),))
    chance = np.random.default_rng(0)
    rows = pa.table({"c": chance.integers(0, 200_000, 1_000_000), "place": np.arange(1_000_000)})
    wanted = chance.choice(200_000, 1000, replace=False)
    literals = [TypedValue(LongType(), v) for v in wanted.tolist()]
    there = np.isin(rows["c"].to_numpy(), wanted)
    for e, places in ((In("c", literals), np.flatnonzero(there)), (NotIn("c", literals), np.flatnonzero(~there))):
        assert (keep_rows(rows, bind(e, schema), schema)["place"].to_numpy() == places).all()


TEMPORAL: dict[PrimitiveType, int] = {
    DateType(): 31,
    TimestampType(): 63,
    TimestamptzType(): 63,
    TimestampNanoType(): 63,
    TimestamptzNanoType(): 63,
}


@pytest.mark.parametrize("column_type", list(TEMPORAL), ids=str)
def test_dates_and_times_as_far_as_their_numbers_reach(column_type: PrimitiveType) -> None:
    """The least and greatest are infinities to DuckDB: they were not found, or the filter failed."""
    end = 2 ** TEMPORAL[column_type]
    numbers = [-end, 1 - end, 2 - end, -1, 0, 1, end - 2, end - 1]
    schema = Schema((NestedField(1, "c", column_type),))
    integers = pa.int32() if isinstance(column_type, DateType) else pa.int64()
    rows = pa.table({"c": pa.array(numbers, integers).cast(type_to_arrow(column_type))})

    def selected(e: Expression) -> list[int]:
        found: list[int] = keep_rows(rows, bind(e, schema), schema)["c"].cast(integers).to_pylist()
        return found

    for number in numbers:
        value = TypedValue(column_type, number)
        assert selected(EqualTo("c", value)) == [number]
        assert selected(GreaterThan("c", value)) == [n for n in numbers if n > number]
        assert selected(LessThan("c", value)) == [n for n in numbers if n < number]
    for more in (range(0), range(100, 100 + INLINE_LITERALS)):
        assert selected(In("c", [TypedValue(column_type, n) for n in (*numbers, *more)])) == numbers


def test_a_list_of_decimals_is_not_that_of_the_doubles_that_equal_them() -> None:
    """Values are kept for the next batch: by doubles, which came first, two of three decimals were not found."""
    from decimal import Decimal

    doubles = [n + 2.0**-20 for n in range(INLINE_LITERALS + 1)]
    for column_type, values in ((DoubleType(), doubles), (DecimalType(38, 20), [Decimal(v) for v in doubles])):
        schema = Schema((NestedField(1, "c", column_type),))
        rows = pa.table({"c": pa.array(values, type_to_arrow(column_type))})
        bound = bind(In("c", [TypedValue(column_type, v) for v in values]), schema)
        assert keep_rows(rows, bound, schema).num_rows == len(values)


def internal(column_type: PrimitiveType, numbers: list[int]) -> list[Any]:
    import uuid
    from decimal import Decimal

    match column_type:
        case StringType():
            return [str(n) for n in numbers]
        case DecimalType():
            return [Decimal(n * 25).scaleb(-2) for n in numbers]
        case DateType():
            return [n - 31 for n in numbers]
        case TimestampType():
            return [n - 50 for n in numbers]
        case UUIDType():
            return [uuid.UUID(f"00000000-0000-0000-0000-{n:012d}") for n in numbers]
        case _:
            return numbers


def test_values_are_never_in_the_text() -> None:
    schema = Schema((NestedField(1, "s", StringType()),))
    parameters: dict[str, Any] = {"p0": "mine"}
    sql = to_sql(bind(EqualTo("s", "'; DROP"), schema), lambda t: '"s"', parameters)
    assert sql == '"s" = $p1' and parameters == {"p0": "mine", "p1": "'; DROP"}


def test_a_bucket_needs_the_callers_sql() -> None:
    schema = Schema((NestedField(1, "id", LongType()),))
    bound = bind(parse_filter("bucket(16, id) = 3"), schema)
    with pytest.raises(ExpressionError, match="bucket"):
        to_sql(bound, lambda t: "id", {})
    assert to_sql(bound, lambda t: "id", {}, lambda t: f"b({t.name})") == "b(id) = $p0::INTEGER"
    with pytest.raises(ExpressionError, match="not bound"):
        to_sql(EqualTo("id", 1), lambda t: "id", {})
