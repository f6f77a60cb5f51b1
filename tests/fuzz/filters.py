"""Filters as plain values: what they say of a row, and how each engine writes them.

A comparison with null is not true in any of them; Java's evaluator thinks otherwise of `<`, so it is told.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen
from pyiceberg import expressions as pyice

from .values import python_value, random_value

if TYPE_CHECKING:
    from .model import Column

Row: TypeAlias = "Mapping[int, Any]"
_JAVA = {"=": "eq", "<": "lt", "<=": "lt-eq", ">": "gt", ">=": "gt-eq"}
_PYICE = {
    "=": pyice.EqualTo,
    "<": pyice.LessThan,
    "<=": pyice.LessThanOrEqual,
    ">": pyice.GreaterThan,
    ">=": pyice.GreaterThanOrEqual,
}
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@frozen
class Compared:
    """A column compared with a value; `in` has several, `null` and `not null` none."""

    column: Column
    op: str
    values: tuple[Any, ...] = ()

    @property
    def has_default(self) -> bool:
        """Whether rows may have a default, which Java and PyIceberg do not see when they leave out row groups."""
        return self.column.default is not None

    def holds(self, row: Row) -> bool:
        found = self.column.of(row)
        if self.op in ("null", "not null"):
            return (found is None) == (self.op == "null")
        if found is None:
            return False
        if self.op == "in":
            return found in self.values
        if found == "NaN" and self.column.is_float:
            return False
        return _TESTS[self.op](self.ordered(found), self.ordered(self.values[0]))

    def ordered(self, value: Any) -> Any:
        return Decimal(value) if self.column.type.startswith("decimal") else value

    def sql(self) -> str:
        name = '"' + self.column.name.replace('"', '""') + '"'
        return self._said(name, [_sql_literal(self.column.type, v) for v in self.values])

    def spark(self, prefix: str = "") -> str:
        """In words of Spark's SQL, with the columns of what is called `prefix`."""
        name = f"{prefix}`{self.column.name}`"
        return self._said(name, [spark_literal(self.column.type, v) for v in self.values])

    def _said(self, name: str, literals: Sequence[str]) -> str:
        match self.op:
            case "null":
                return f"{name} IS NULL"
            case "not null":
                return f"{name} IS NOT NULL"
            case "in":
                return f"{name} IN ({', '.join(literals)})"
        return f"{name} {self.op} {literals[0]}"

    def pyice(self) -> pyice.BooleanExpression:
        literals = [_pyice_literal(self.column.type, v) for v in self.values]
        match self.op:
            case "null":
                return pyice.IsNull(self.column.name)
            case "not null":
                return pyice.NotNull(self.column.name)
            case "in":
                return pyice.In(self.column.name, literals)
        return _PYICE[self.op](self.column.name, literals[0])

    def java(self) -> dict[str, Any]:
        name = self.column.name
        if self.op in ("null", "not null"):
            return {"type": "is-null" if self.op == "null" else "not-null", "term": name}
        if self.op == "in":
            compared = {"type": "in", "term": name, "values": list(self.values)}
        else:
            compared = {"type": _JAVA[self.op], "term": name, "value": self.values[0]}
        return {"type": "and", "left": {"type": "not-null", "term": name}, "right": compared}


@frozen
class Joined:
    """Two filters, with `and` or `or`."""

    op: str
    left: Filter
    right: Filter

    @property
    def has_default(self) -> bool:
        return self.left.has_default or self.right.has_default

    def holds(self, row: Row) -> bool:
        both = (self.left.holds(row), self.right.holds(row))
        return all(both) if self.op == "and" else any(both)

    def sql(self) -> str:
        return f"({self.left.sql()} {self.op.upper()} {self.right.sql()})"

    def spark(self, prefix: str = "") -> str:
        return f"({self.left.spark(prefix)} {self.op.upper()} {self.right.spark(prefix)})"

    def pyice(self) -> pyice.BooleanExpression:
        made = pyice.And if self.op == "and" else pyice.Or
        return made(self.left.pyice(), self.right.pyice())

    def java(self) -> dict[str, Any]:
        return {"type": self.op, "left": self.left.java(), "right": self.right.java()}


Filter: TypeAlias = "Compared | Joined"


def random_filter(dice: random.Random, columns: Sequence[Column], rows: Sequence[Row], depth: int = 1) -> Filter:
    """One that mostly holds for some rows: its values are those of a row."""
    if depth and dice.random() < 0.35:
        op = dice.choice(("and", "or"))
        pair = [random_filter(dice, columns, rows, depth - 1) for _ in range(2)]
        return Joined(op, pair[0], pair[1])
    column = dice.choice(columns)
    row: Row = dice.choice(rows) if rows else {}
    value = column.of(row) if dice.random() < 0.8 else random_value(dice, column.type)
    if value is None or value == "NaN":
        return Compared(column, dice.choice(("null", "not null")))
    if column.type == "boolean":
        return Compared(column, "=", (value,))
    if dice.random() < 0.25:
        others = {value, *(column.of(r) for r in dice.sample(list(rows), min(3, len(rows))))} - {None, "NaN"}
        return Compared(column, "in", tuple(sorted(others, key=str)))
    ops = ("=", "<", "<=") if column.is_float else ("=", "<", "<=", ">", ">=")
    return Compared(column, dice.choice(ops), (value,))


def spark_literal(type_name: str, value: Any) -> str:
    """A value of a type in Spark's SQL."""
    kind = {"timestamp": "TIMESTAMP_NTZ", "long": "BIGINT"}.get(type_name, type_name.upper())
    if value is None:
        return f"CAST(NULL AS {kind})"
    text = str(value).replace("'", "\\'")
    return f"'{text}'" if type_name == "string" else f"CAST('{text}' AS {kind})"


def _sql_literal(type_name: str, value: Any) -> str:
    text = str(value)
    match type_name:
        case "date":
            return f"DATE '{text}'"
        case "timestamp":
            return f"TIMESTAMP '{text.replace('T', ' ')}'"
        case "string":
            return "'" + text.replace("'", "''") + "'"
    return text


def _pyice_literal(type_name: str, value: Any) -> Any:
    return value if type_name in ("date", "timestamp") else python_value(type_name, value)
