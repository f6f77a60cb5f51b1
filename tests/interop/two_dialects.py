"""Filters drawn once and written twice: as DuckDB (and icecore) read them, and as Spark SQL that means the same.

The two texts are the same where the engines agree. Where they don't, Spark's says what DuckDB's means:
- A literal without a cast is a decimal to both. Spark compares it with a float as doubles and DuckDB as floats,
  so literals beside floats are cast. A string beside a number or a time takes the column's type in DuckDB; Spark would
  make both a double, so there it is cast to the column's type.
- `isnan(NULL)` is NULL in DuckDB and false in Spark, which NOT turns into true: Spark is given `x = NaN`. Both hold NaN
  to be equal to itself and greater than all numbers, and -0.0 to equal 0.0.
- Spark's LIKE has `\\` as its escape character, DuckDB's has none: Spark is given one that the pattern lacks.
- Spark's strings take escapes, so they are given as bytes. Both order strings by their UTF-8 bytes.
- TIMESTAMP is without a zone in DuckDB and with one in Spark. Times of day and nanoseconds are numbers in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from expression_cases import VALUES, Column
from hypothesis import strategies as st

from icecore.engine.spec import single_value
from icecore.engine.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

Pair = tuple[str, str]
"""A text for DuckDB and icecore, and one for Spark."""
NUMBERS = (IntegerType, LongType, FloatType, DoubleType)
PATTERNS = ["a%", "%", "ab_%", "_", "%c", "abc", "abcdefghijklmnop%", "é%", "a\\%", "", "\U0010ffff%", "%\U0010ffff_"]
ESCAPED = ["a!_b!%", "a!_%", "!%%", "a!_b_"]


@st.composite
def paired_filters(draw: st.DrawFn, columns: dict[str, Column], depth: int = 2) -> Pair:
    kind = draw(st.sampled_from(["leaf", "leaf", "AND", "OR", "NOT"])) if depth else "leaf"
    if kind == "leaf":
        name = draw(st.sampled_from(sorted(columns)))
        return draw(_leaves(name, *columns[name]))
    if kind == "NOT":
        ours, spark = draw(paired_filters(columns, depth - 1))
        return f"NOT ({ours})", f"NOT ({spark})"
    sides = draw(st.lists(paired_filters(columns, depth - 1), min_size=2, max_size=3))
    return f"({f' {kind} '.join(s[0] for s in sides)})", f"({f' {kind} '.join(s[1] for s in sides)})"


@st.composite
def _leaves(draw: st.DrawFn, name: str, kind: PrimitiveType, pool: Sequence[Any]) -> Pair:
    near = st.sampled_from(literals(kind, pool) or [("NULL", "NULL")])
    literal = st.one_of(near, near, st.sampled_from(literals(kind, VALUES.get(kind, pool))))
    kinds = ["compare", "compare", "compare", "in", "between", "null", "distinct"]
    kinds += ["like", "escape", "starts"] if isinstance(kind, StringType) else []
    kinds += ["isnan"] * 2 if isinstance(kind, (FloatType, DoubleType)) else []
    kinds += ["bare", "is"] if isinstance(kind, BooleanType) else []
    kinds += ["year", "day"] if isinstance(kind, (DateType, TimestampType, TimestamptzType)) else []
    kinds += ["bucket"] if isinstance(kind, (IntegerType, LongType)) else []
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    match draw(st.sampled_from(kinds)):
        case "compare":
            ours, spark = draw(literal)
            return f"{name} {op} {ours}", f"{name} {op} {spark}"
        case "in":
            word = draw(st.sampled_from(["IN", "NOT IN"]))
            # All of one type: DuckDB gives a list one type. Some more than Spark keeps a list as a list.
            items = draw(st.lists(st.sampled_from(typed(kind, VALUES.get(kind, pool))), min_size=1, max_size=13))
            items += draw(st.sampled_from([[], [], [("NULL", "NULL")]]))
            return tuple(f"{name} {word} ({', '.join(i[n] for i in items)})" for n in (0, 1))  # type: ignore[return-value]
        case "between":
            word = draw(st.sampled_from(["BETWEEN", "NOT BETWEEN"]))
            low, high = (draw(st.sampled_from(typed(kind, [*pool, *VALUES.get(kind, pool)]))) for _ in range(2))
            return f"{name} {word} {low[0]} AND {high[0]}", f"{name} {word} {low[1]} AND {high[1]}"
        case "null":
            return (draw(st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} = NULL"])),) * 2
        case "distinct":
            word = draw(st.sampled_from(["", "NOT "]))
            ours, spark = draw(literal)
            return f"{name} IS {word}DISTINCT FROM {ours}", f"{name} IS {word}DISTINCT FROM {spark}"
        case "like":
            word, pattern = draw(st.sampled_from(["LIKE", "NOT LIKE"])), draw(st.sampled_from(PATTERNS))
            return f"{name} {word} '{pattern}'", f"{name} {word} {_spark_text(pattern)} ESCAPE '|'"
        case "escape":
            word, pattern = draw(st.sampled_from(["LIKE", "NOT LIKE"])), draw(st.sampled_from(ESCAPED))
            return (f"{name} {word} '{pattern}' ESCAPE '!'",) * 2
        case "starts":
            ours, spark = draw(literal)
            return f"starts_with({name}, {ours})", f"startswith({name}, {spark})"
        case "isnan":
            return f"isnan({name})", f"{name} = DOUBLE('NaN')"
        case "bare":
            return name, name
        case "is":
            word = draw(st.sampled_from(["TRUE", "FALSE", "NOT TRUE", "NOT FALSE"]))
            return f"{name} IS {word}", f"{name} IS {word}"
        case "year":
            return (f"year({name}) {op} {draw(st.sampled_from([1969, 1970, 2023, 2024, 1]))}",) * 2
        case "day":
            day = draw(st.sampled_from(["1969-12-31", "1970-01-01", "2024-01-01"]))
            return (f"CAST({name} AS DATE) {op} DATE '{day}'",) * 2
        case _:
            # Murmur3 with a seed of 0, from Spark's with 42: the hash of a value that leads there comes first.
            number = draw(st.integers(0, 3))
            hashed = f"(hash(-1693959553, CAST({name} AS BIGINT)) & 2147483647) % 4"
            return f"bucket(4, {name}) = {number}", f"IF({name} IS NULL, NULL, {hashed}) = {number}"


def literals(kind: PrimitiveType, pool: Sequence[Any]) -> list[Pair]:
    """Literals to compare a column with: of its type, and of others."""
    found = typed(kind, pool)
    numbers = [v for v in pool if not isinstance(v, float) or math.isfinite(v)]
    match kind:
        case IntegerType() | LongType():
            found += [(f"{v}.5",) * 2 for v in numbers] + [(f"CAST('{v}.5' AS DOUBLE)",) * 2 for v in numbers]
            found += [(f"'{v}'", f"{v}") for v in numbers]
            return [
                *found,
                ("99999999999999999999",) * 2,
                ("CAST('-1e30' AS DOUBLE)",) * 2,
                ("CAST('NaN' AS DOUBLE)",) * 2,
            ]
        case FloatType() | DoubleType():
            name = str(kind).upper()
            found += [(f"CAST('{v!r}' AS {t})",) * 2 for v in numbers for t in ("FLOAT", "DOUBLE") if abs(v) < 1e38]
            return [*found, ("'0.1'", f"CAST('0.1' AS {name})"), ("CAST('1e39' AS DOUBLE)",) * 2]
        case DecimalType():
            return [*found, *((f"{v:f}4",) * 2 for v in numbers if abs(v) < 10**20), ("4.999",) * 2, ("5",) * 2]
        case DateType():
            days = [single_value.format_date(v) for v in numbers]
            found += [(f"'{d}'", f"DATE '{d}'") for d in days]
            return found + [(f"TIMESTAMP '{d} 12:00:00'", f"TIMESTAMP_NTZ '{d} 12:00:00'") for d in days]
        case TimestampType():
            return [*found, ("DATE '1970-01-01'",) * 2, ("'2024-01-01'", "TIMESTAMP_NTZ '2024-01-01 00:00:00'")]
        case TimestamptzType():
            hour_later = "TIMESTAMPTZ '2024-01-01 01:00:00+01'", "TIMESTAMP '2024-01-01 01:00:00+01:00'"
            return [*found, hour_later, ("'2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 00:00:00+00:00'")]
        case _:
            return found


def typed(kind: PrimitiveType, pool: Sequence[Any]) -> list[Pair]:
    """Values of a type as literals of that type."""
    return [_typed(kind, v) for v in pool if v is not None]


def _typed(kind: PrimitiveType, value: Any) -> Pair:
    match kind:
        case BooleanType():
            return (str(value).upper(),) * 2
        case IntegerType() | LongType():
            return f"{value}", f"{value}"
        case FloatType() | DoubleType():
            return (f"CAST('{value!r}' AS {str(kind).upper()})",) * 2
        case DecimalType():
            return f"{value:f}", f"{value:f}"
        case DateType():
            return (f"DATE '{single_value.format_date(value)}'",) * 2
        case TimeType():
            return f"TIME '{single_value.to_json(kind, value)}'", f"{value}"
        case TimestampNanoType():
            return f"'{single_value.to_json(kind, value)}'", f"{value}"
        case TimestampType():
            text = single_value.to_json(kind, value)
            return f"TIMESTAMP '{text}'", f"TIMESTAMP_NTZ '{text}'"
        case TimestamptzType():
            text = single_value.to_json(kind, value)
            return f"TIMESTAMPTZ '{text}'", f"TIMESTAMP '{text}'"
        case StringType():
            quoted = value.replace("'", "''")
            return f"'{quoted}'", _spark_text(value)
        case UUIDType():
            return f"'{value}'::UUID", f"'{value}'"
        case _:
            blob = "".join(f"\\x{b:02X}" for b in value)
            return f"'{blob}'::BLOB", f"X'{value.hex()}'"


def _spark_text(text: str) -> str:
    return f"CAST(X'{text.encode().hex()}' AS STRING)"
