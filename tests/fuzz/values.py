"""Types of columns and random values of them, in the form that all engines' rows are compared in.

That form is of JSON: dates and times as ISO text, decimals as text, structs as lists, NaN as "NaN".
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

TYPES = ("int", "long", "float", "double", "string", "date", "timestamp", "decimal(9, 2)", "boolean", "struct")
PROMOTIONS = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(12, 2)"}
ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "decimal(9, 2)": pa.decimal128(9, 2),
    "decimal(12, 2)": pa.decimal128(12, 2),
    "boolean": pa.bool_(),
    "struct": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}
_TEXTS = ("", "a", "Oslo", "Rome", "it's", "a long name that is cut short in bounds", "Ünï", "😀😀", "x/y=z &?")
_DAYS = ("1969-12-31", "1970-01-01", "2024-01-05", "2024-02-09", "2024-12-31", "1500-02-28")
# Not the least ones: Java's truncate wraps around there, and its own filters then lose rows.
_LEAST_INT, _LEAST_LONG = -(2**31) + 100, -(2**63) + 100
_TIMES = ("1969-12-31T23:59:59.999999", "2024-01-05T00:00:00", "2024-01-05T10:30:00.000001", "1969-06-01T00:00:00")


def random_value(dice: random.Random, type_name: str) -> Any:
    """A value of the type, or None now and then; from few, so that they meet again."""
    if dice.random() < 0.12:
        return None
    match type_name:
        case "int":
            return dice.choice((_LEAST_INT, -3, -1, 0, 1, 2, 7, 2**31 - 1))
        case "long":
            return dice.choice((_LEAST_LONG, -3, -1, 0, 1, 2, 7, 2**40, 2**63 - 1))
        case "float" | "double":
            return dice.choice((-2.5, 0.5, 1.0, 3.25, 1024.0, "NaN"))
        case "string":
            return dice.choice(_TEXTS)
        case "date":
            return dice.choice(_DAYS)
        case "timestamp":
            return dice.choice(_TIMES)
        case "boolean":
            return dice.random() < 0.5
        case "struct":
            return [random_value(dice, "int"), random_value(dice, "string")]
    return dice.choice(("-9999000.99", "-0.01", "0.00", "12.50", "9999999.99"))


def canonical(value: Any) -> Any:
    """A Python value as engines give it, or Java's text, in the form that rows are compared in."""
    match value:
        case dt.datetime():
            return value.isoformat()
        case dt.date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case dict():
            return list(value.values())
        case float() if math.isnan(value):
            return "NaN"
    return value


def from_java(type_name: str, value: Any) -> Any:
    """A value of Java's answer; it writes times without seconds where these are zero, and whole numbers."""
    if value is None:
        return None
    if type_name == "timestamp":
        return dt.datetime.fromisoformat(value).isoformat()
    if type_name in ("float", "double") and value != "NaN":
        return float(value)
    return value


def python_value(type_name: str, value: Any) -> Any:
    """The opposite of `canonical`."""
    if value is None:
        return None
    match type_name:
        case "date":
            return dt.date.fromisoformat(value)
        case "timestamp":
            return dt.datetime.fromisoformat(value)
        case "float" | "double":
            return float(value)
        case "struct":
            return {"a": value[0], "b": value[1]}
    return Decimal(value) if type_name.startswith("decimal") else value


def arrow_table(columns: Iterable[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as Arrow; columns as names with types."""
    fields, arrays = [], []
    for i, (name, type_name) in enumerate(columns):
        values = [python_value(type_name, row[i]) for row in rows]
        fields.append(pa.field(name, ARROW[type_name]))
        arrays.append(pa.array(values, ARROW[type_name]))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def sorted_rows(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """In an order that does not depend on files."""
    return sorted((tuple(r) for r in rows), key=lambda row: [(v is not None, str(type(v)), str(v)) for v in row])
