"""Values, literals and filters of every type, and the metrics that a writer would keep of a file."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from icecore.engine.expression.strings import bytes_successor, string_successor
from icecore.engine.spec import single_value
from icecore.engine.spec.transform import Transform, parse_transform
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
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

DAY = 86_400_000_000


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


_FLOATS = [0.0, -0.0, 0.1, -1.5, 2.0, 16777216.0, math.nan, math.inf, -math.inf, 1e-30, 3e38]
_MOMENTS = [-1, 0, 1, -DAY, -DAY - 1, DAY, 1_704_067_200_000_000, 1_704_110_400_123_456, -86_399_999_999, -(10**16)]
_NANO_MOMENTS = [-1000, -1, 0, 1, 1000, -DAY * 1000, 1_704_067_200_000_000_000, 1_704_110_400_123_456_789]
_TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "abcdefghijklmnop",
    "abcdefghijklmnopq",
    "abcdefghijklmnop\U0010ffff",
    "ab\U0010ffff",
    "a_b%",
    "é",
    "\ud7ff",
    "\uffff😀",
    "\U0010ffff" * 18,
    "a" * 15 + "\U0010ffff\U0010ffff",
]
_UUIDS = [uuid.UUID(int=i) for i in (0, 1, 2**127, 2**127 + 5, 2**128 - 1, 2**63, 77)]
_BYTES = [b"", b"a", b"ab", b"\xff" * 17, b"\xff" * 15 + b"\x00", b"abcdefghijklmnopqr", b"\x00"]

VALUES: dict[PrimitiveType, list[Any]] = {
    BooleanType(): [True, False],
    IntegerType(): [-5, -1, 0, 1, 2, 3, 10, 2**24 + 1, 2**31 - 1, 8 - 2**31],
    LongType(): [-5, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1, 8 - 2**63],
    FloatType(): [_single(v) for v in _FLOATS],
    DoubleType(): [*_FLOATS, _single(0.1), 1e300, 16777217.0],
    DecimalType(9, 2): [Decimal(v) for v in ("0.00", "0.10", "-0.01", "4.99", "5.00", "9999999.99", "-9999999.90")],
    DecimalType(38, 10): [Decimal(v).scaleb(-10) for v in (0, 1, -1, 10**10)] + [Decimal("9" * 28 + "." + "9" * 10)],
    DateType(): [-719162, -366, -32, -1, 0, 1, 31, 19723, 19724, 20000],
    TimeType(): [0, 1, 3_600_000_000, DAY - 1],
    TimestampType(): _MOMENTS,
    TimestamptzType(): _MOMENTS,
    TimestampNanoType(): _NANO_MOMENTS,
    TimestamptzNanoType(): _NANO_MOMENTS,
    StringType(): _TEXTS,
    UUIDType(): _UUIDS,
    FixedType(4): [b"\x00\x00\x00\x00", b"abcd", b"abce", b"\xff\xff\xff\xff", b"\x80\x00\x00\x01"],
    BinaryType(): _BYTES,
}
Column = tuple[PrimitiveType, list[Any]]
# The types with the most traps come most often.
TYPES: list[PrimitiveType] = [
    *VALUES,
    *(t for t in VALUES if str(t) in ("float", "double", "string") for _ in range(4)),
]
TRANSFORMS = ("identity", "bucket[4]", "truncate[2]", "truncate[10]", "year", "month", "day", "hour", "void")

# The types of DuckDB that rows are compared in: dates and times are their numbers.
NATIVE = {
    "int": "INTEGER",
    "long": "BIGINT",
    "boolean": "BOOLEAN",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "INTEGER",
    "time": "BIGINT",
    "timestamp": "BIGINT",
    "timestamptz": "BIGINT",
    "timestamp_ns": "BIGINT",
    "timestamptz_ns": "BIGINT",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
    "fixed[4]": "BLOB",
}


def native(column_type: PrimitiveType) -> str:
    return NATIVE.get(str(column_type)) or str(column_type)


def transforms_of(column_type: PrimitiveType) -> list[Transform]:
    found = (parse_transform(t) for t in TRANSFORMS)
    return [t for t in found if t.can_transform(column_type)]


def literal_texts(column_type: PrimitiveType, pool: Sequence[Any]) -> list[str]:
    """SQL literals to compare a column with, of its type and of others that DuckDB compares with it alike."""
    values = [v for v in pool if not isinstance(v, float) or math.isfinite(v)]
    nan = ["'NaN'::DOUBLE", "'Infinity'::DOUBLE", "'-Infinity'::FLOAT"]
    match column_type:
        case BooleanType():
            return ["TRUE", "FALSE", "'true'", "CAST('false' AS BOOLEAN)"]
        case IntegerType() | LongType():
            plain = [f"{v}" for v in values] + [f"{v}.5" for v in values] + [f"{v}.0" for v in values]
            doubles = [f"{v}::DOUBLE" for v in values] + ["1e0", "2.5e0", "-1e30", "9007199254740992e0"]
            return [*plain, *doubles, *nan, *(f"'{v}'" for v in values), "99999999999999999999", "-1e2", "3::FLOAT"]
        case FloatType() | DoubleType():
            plain = ["0.1", "1e-1", "0", "-0.0", "2", "16777217", "1e39", "-1e300", "0.1::DOUBLE", "0.1::FLOAT"]
            of_values = [f"{v!r}::{t}" for v in values for t in ("FLOAT", "DOUBLE") if abs(v) < 1e39] * 3
            return [*plain, *of_values, *nan, "'0.1'", "'NaN'", "'-inf'", "1e-30", "3e38", "16777217e0"]
        case DecimalType(scale=scale):
            plain = [format(v, "f") for v in values] + [format(v, "f") + "4" for v in values]
            return [*plain, "4.999", "5", "-1", "0.1e0", "1e10", *nan, *(f"'{v:.{scale}f}'" for v in values)]
        case DateType():
            days = [single_value.format_date(v) for v in values]
            midday = [f"TIMESTAMP '{d} 12:00:00'" for d in days]
            return [
                *(f"DATE '{d}'" for d in days),
                *(f"'{d}'" for d in days),
                *midday,
                *(f"TIMESTAMP '{d}'" for d in days),
            ]
        case TimeType():
            return [f"{t}'{single_value.to_json(column_type, v)}'" for v in values for t in ("", "TIME ")]
        case TimestampType() | TimestampNanoType():
            nano = isinstance(column_type, TimestampNanoType)
            texts = [single_value.to_json(column_type, v) for v in values]
            typed = "TIMESTAMP_NS" if nano else "TIMESTAMP"
            return [
                *(f"'{t}'" for t in texts),
                *(f"{typed} '{t}'" for t in texts),
                "DATE '1970-01-01'",
                "DATE '2024-01-01'",
                "TIMESTAMP '2024-01-01 12:00:00.123456'",
                "TIMESTAMP_NS '1970-01-01 00:00:00.000000500'",
            ]
        case TimestamptzType() | TimestamptzNanoType():
            texts = [single_value.to_json(column_type, v) for v in values if v % 1000 == 0]
            return [
                *(f"'{t}'" for t in texts),
                *(f"TIMESTAMPTZ '{t}'" for t in texts),
                "TIMESTAMPTZ '2024-01-01 01:00:00+01'",
                "TIMESTAMPTZ '2024-01-01 00:00:00'",
                "TIMESTAMP '2024-01-01 00:00:00'",
                "DATE '1970-01-01'",
            ]
        case StringType():
            return ["'" + v.replace("'", "''") + "'" for v in values]
        case UUIDType():
            return [f"'{v}'" for v in values] + [f"'{v}'::UUID" for v in values]
        case _:
            blobs = ["'" + "".join(f"\\x{b:02X}" for b in v) + "'::BLOB" for v in values]
            return [*blobs, *(f"X'{v.hex()}'" for v in values if v)]


@st.composite
def leaf_texts(draw: st.DrawFn, name: str, column_type: PrimitiveType, pool: Sequence[Any]) -> str:
    """A SQL predicate on one column, most often with a literal near the values that it has."""
    near = st.sampled_from(literal_texts(column_type, pool) or ["NULL"])
    literal = st.one_of(near, near, st.sampled_from(literal_texts(column_type, VALUES.get(column_type, pool))))
    kinds = ["compare", "compare", "compare", "flipped", "in", "not in", "between", "null", "distinct"]
    if isinstance(column_type, StringType):
        kinds += ["like", "like", "starts", "escape"]
    if isinstance(column_type, (FloatType, DoubleType)):
        kinds += ["isnan"]
    if isinstance(column_type, BooleanType):
        kinds += ["bare", "is"]
    if isinstance(column_type, (TimestampType, TimestamptzType, DateType)):
        kinds += ["year", "cast"]
    op = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    match draw(st.sampled_from(kinds)):
        case "compare":
            return f"{name} {op} {draw(literal)}"
        case "flipped":
            return f"{draw(literal)} {op} {name}"
        case "in" | "not in" as word:
            # DuckDB gives all the literals of a list one type, so they are all of the same kind here.
            items = draw(st.lists(st.sampled_from(in_texts(column_type, pool)), min_size=1, max_size=4))
            items += draw(st.sampled_from([[], [], ["NULL"]]))
            return f"{name} {word.upper()} ({', '.join(items)})"
        case "between":
            word = draw(st.sampled_from(["BETWEEN", "NOT BETWEEN"]))
            low, high = draw(st.lists(st.sampled_from(in_texts(column_type, pool)), min_size=2, max_size=2))
            return f"{name} {word} {low} AND {high}"
        case "null":
            return draw(st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} = NULL"]))
        case "distinct":
            return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}DISTINCT FROM {draw(literal)}"
        case "like":
            patterns = ["a%", "%", "ab_%", "_", "%c", "abc", "abcdefghijklmnop%", "é%", "a\\%", "", "\U0010ffff%"]
            return f"{name} {draw(st.sampled_from(['LIKE', 'NOT LIKE']))} '{draw(st.sampled_from(patterns))}'"
        case "escape":
            pattern = draw(st.sampled_from(["a!_b!%", "a!_%", "!%%", "a!_b_"]))
            return f"{name} {draw(st.sampled_from(['LIKE', 'NOT LIKE']))} '{pattern}' ESCAPE '!'"
        case "starts":
            return f"starts_with({name}, {draw(literal)})"
        case "isnan":
            return f"isnan({name})"
        case "bare":
            return name
        case "is":
            return f"{name} IS {draw(st.sampled_from(['TRUE', 'FALSE', 'NOT TRUE', 'NOT FALSE']))}"
        case "year":
            return f"year({name}) {op} {draw(st.sampled_from([1969, 1970, 2023, 2024, 1]))}"
        case _:
            day = draw(st.sampled_from(["1969-12-31", "1970-01-01", "2024-01-01"]))
            return f"CAST({name} AS DATE) {op} DATE '{day}'"


def in_texts(column_type: PrimitiveType, pool: Sequence[Any]) -> list[str]:
    match column_type:
        case IntegerType() | LongType():
            return [str(v) for v in pool] + ["5.5"]
        case FloatType() | DoubleType():
            return ["0.1", "0.0", "2.0", "16777217.0"]
        case DecimalType():
            return [format(v, "f") for v in pool]
        case _:
            found = [t for t in literal_texts(column_type, pool) if t.startswith(("'", "X", "TRUE", "FALSE"))]
            return found or in_texts(column_type, VALUES.get(column_type, pool))


@st.composite
def filter_texts(draw: st.DrawFn, columns: Mapping[str, Column], depth: int = 2) -> str:
    """A SQL condition over some columns, which are given with the values that they have."""
    kind = draw(st.sampled_from(["leaf", "leaf", "and", "or", "not"])) if depth else "leaf"
    if kind == "leaf":
        name = draw(st.sampled_from(sorted(columns)))
        return draw(leaf_texts(name, *columns[name]))
    if kind == "not":
        return f"NOT ({draw(filter_texts(columns, depth - 1))})"
    sides = draw(st.lists(filter_texts(columns, depth - 1), min_size=2, max_size=3))
    return f"({f' {kind.upper()} '.join(sides)})"


def truncated_bounds(column_type: PrimitiveType, lower: Any, upper: Any, width: int) -> tuple[Any, Any]:
    """Bounds cut as Java cuts them: the upper one made larger, or left out where that can't be."""
    if isinstance(column_type, StringType):
        return lower[:width], upper if len(upper) <= width else string_successor(upper[:width])
    if isinstance(column_type, BinaryType):
        return lower[:width], upper if len(upper) <= width else bytes_successor(upper[:width])
    return lower, upper


def metrics(column_type: PrimitiveType, values: list[Any], width: int) -> dict[str, Any]:
    """lower, upper, nulls, nans and values of a column of a file."""
    present = [v for v in values if v is not None]
    numbers = [v for v in present if not (isinstance(v, float) and math.isnan(v))]
    lower = upper = None
    if numbers:
        lower, upper = min(numbers), max(numbers)
        if isinstance(lower, float):
            # The spec orders -0.0 before 0.0 (M5).
            lower = -0.0 if lower == 0 else lower
            upper = 0.0 if upper == 0 else upper
        lower, upper = truncated_bounds(column_type, lower, upper, width)
    nans = len(present) - len(numbers) if isinstance(column_type, (FloatType, DoubleType)) else None
    return {"lower": lower, "upper": upper, "nulls": values.count(None), "nans": nans, "values": len(values)}
