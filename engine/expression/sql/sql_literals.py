"""Literals and parameters of SQL text as Python values or `TypedValue`s."""

from __future__ import annotations

import datetime as dt
import re
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from attrs import frozen
from sqlglot import exp

from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.literal_values import elements, plain
from icecore.engine.expression.literals import NS_PER_DAY, nanoseconds
from icecore.engine.expression.nodes import TypedValue
from icecore.engine.expression.temporal import parse_time_text, parse_timestamp_text, time_of
from icecore.engine.spec import single_value
from icecore.engine.spec.types import (
    DateType,
    DoubleType,
    FloatType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

NOT_A_LITERAL: Any = object()
_T = exp.DataType.Type
_MAX_DECIMAL_DIGITS = 38
_EXACT = Context(prec=200)
_INTEGERS = {_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT, _T.INT128, _T.UTINYINT, _T.USMALLINT, _T.UINT, _T.UBIGINT}
_TIMESTAMPS: dict[Any, PrimitiveType] = {
    _T.TIMESTAMP: TimestampType(),
    _T.TIMESTAMPNTZ: TimestampType(),
    _T.DATETIME: TimestampType(),
    _T.TIMESTAMP_S: TimestampType(),
    _T.TIMESTAMP_MS: TimestampType(),
    _T.TIMESTAMP_NS: TimestampNanoType(),
    _T.TIMESTAMPTZ: TimestamptzType(),
}
_UNITS = {_T.TIMESTAMP_S: 1_000_000, _T.TIMESTAMP_MS: 1000}
"""The microseconds in the unit of types whose casts round to it in DuckDB."""
_BLOB_PART = re.compile(r"\\x([0-9a-fA-F]{2})|([^\\\x80-\U0010ffff])")


@frozen
class Parameters:
    """The values of a filter's parameters: by name, or by position in the text."""

    named: Mapping[str, Any]
    positions: Mapping[int, int]
    ordered: tuple[Any, ...] | None

    @classmethod
    def of(cls, given: Mapping[str, Any] | Sequence[Any] | None, root: exp.Expression) -> Parameters:
        """The parameters of a filter. Raises ExpressionError where their number is not that of question marks."""
        marks = [p for p in root.find_all(exp.Placeholder, bfs=False) if not p.this]
        positions = {id(p): i for i, p in enumerate(marks)}
        if given is None or isinstance(given, Mapping):
            return cls({k.lstrip("$:"): v for k, v in (given or {}).items()}, positions, None)
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise ExpressionError(f"parameters must be a mapping or a sequence, found {type(given).__name__}")
        if marks and len(marks) != len(given):
            raise ExpressionError(f"the filter has {len(marks)} parameters, {len(given)} values were given")
        return cls({str(i + 1): v for i, v in enumerate(given)}, positions, tuple(given))

    def raw(self, node: exp.Placeholder) -> Any:
        """The value as given. Raises ExpressionError where there is none."""
        if not node.this and self.ordered is not None:
            return self.ordered[self.positions[id(node)]]
        if not node.this or node.name not in self.named:
            known = ", ".join(sorted(self.named)) or "none"
            raise ExpressionError(f"no value was given for the parameter {node.name or '?'!r}; there are: {known}")
        return self.named[node.name]

    def one(self, node: exp.Placeholder) -> Any:
        """The value of a parameter as a literal. Raises ExpressionError for a collection, and where there is none."""
        value = self.raw(node)
        if elements(value) is not None:
            raise ExpressionError(f"the parameter {node.name or '?'!r} is a {type(value).__name__}; that fits only IN")
        return _bound(value)

    def many(self, node: exp.Placeholder) -> list[Any] | None:
        """The values of a parameter that is a collection, else None."""
        found = elements(self.raw(node))
        return None if found is None else [_bound(v) for v in found]


def literal_value(node: exp.Expression, parameters: Parameters) -> Any:
    """The value of a literal, a cast of one, or a parameter; NOT_A_LITERAL for anything else."""
    match node:
        case exp.Paren():
            return literal_value(node.this, parameters)
        case exp.Literal():
            return node.this if node.is_string else _number(node.this)
        case exp.RawString():
            return node.this
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.HexString():
            return _hex(node.this)
        case exp.Neg():
            return _negated(literal_value(node.this, parameters), node)
        case exp.Placeholder():
            return parameters.one(node)
        case exp.Cast() if type(node) is exp.Cast:
            value = literal_value(node.this, parameters)
            return value if value is NOT_A_LITERAL or value is None else _cast(value, node)
        case _:
            return NOT_A_LITERAL


def _bound(value: Any) -> Any:
    """A parameter's value; a float is a double, as DuckDB binds it."""
    value = plain(value)
    return TypedValue(DoubleType(), float(value)) if isinstance(value, float) else value


def _number(text: str) -> Any:
    try:
        if "e" in text.lower():
            return TypedValue(DoubleType(), float(text))
        if "." not in text:
            return int(text)
        # DuckDB counts leading zeros too.
        if len(text) - 1 > _MAX_DECIMAL_DIGITS:
            return TypedValue(DoubleType(), float(text))
        return Decimal(text)
    except (InvalidOperation, ValueError) as e:
        raise ExpressionError(f"{text[:60]!r} is not a number") from e


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as e:
        raise ExpressionError(f"X'{text[:60]}' is not a binary literal: two hexadecimal digits a byte") from e


def _negated(value: Any, node: exp.Expression) -> Any:
    if value is NOT_A_LITERAL or value is None:
        return value
    if isinstance(value, TypedValue) and isinstance(value.value, float):
        return TypedValue(value.type, -value.value)
    if isinstance(value, Decimal):
        return value.copy_negate()
    if isinstance(value, int) and not isinstance(value, bool):
        return -value
    raise ExpressionError(f"{node.sql(dialect='duckdb')!r} negates what is not a number")


def _cast(value: Any, node: exp.Cast) -> Any:
    try:
        return _cast_to(value, node.to)
    except (ValidationError, ArithmeticError, ValueError, TypeError, struct.error) as e:
        raise ExpressionError(f"can't take {node.sql(dialect='duckdb')!r} as a literal: {e}") from e


def _cast_to(value: Any, to: exp.DataType) -> Any:
    kind = to.this
    inner = value.value if isinstance(value, TypedValue) and isinstance(value.type, (FloatType, DoubleType)) else value
    if kind in _INTEGERS:
        return _whole(inner)
    if kind is _T.DECIMAL:
        precision, scale = (int(p.name) for p in to.expressions)
        out = _decimal(inner).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
        if abs(out) >= Decimal(10).scaleb(precision - scale):
            raise ExpressionError(f"it does not fit decimal({precision}, {scale})")
        return out
    if kind in (_T.DOUBLE, _T.FLOAT):
        number = (
            float(inner)
            if isinstance(inner, str)
            else float(_decimal(inner))
            if not isinstance(inner, float)
            else inner
        )
        return TypedValue(DoubleType(), number) if kind is _T.DOUBLE else TypedValue(FloatType(), _single(number))
    if kind in (_T.TEXT, _T.VARCHAR) and isinstance(inner, str):
        return inner
    if kind is _T.BOOLEAN and isinstance(inner, (bool, str)):
        return _boolean(inner)
    if kind is _T.VARBINARY and isinstance(inner, (str, bytes)):
        return inner if isinstance(inner, bytes) else _blob(inner)
    return _temporal(inner, kind)


def _temporal(value: Any, kind: Any) -> Any:
    name = str(kind.value)
    if kind is _T.DATE or kind in _TIMESTAMPS:
        moment = _moment(value, DateType() if kind is _T.DATE else _TIMESTAMPS[kind])
        if moment.value % _UNITS.get(kind, 1):
            raise ExpressionError(f"it has a fraction of the unit of {name}, which would be rounded")
        return moment
    if kind is _T.TIME and isinstance(value, (str, dt.time)):
        return TypedValue(TimeType(), parse_time_text(value) if isinstance(value, str) else time_of(value))
    if kind is _T.UUID and isinstance(value, (str, uuid.UUID)):
        return TypedValue(UUIDType(), single_value.from_json(UUIDType(), str(value).strip()))
    if kind in (_T.TIME, _T.UUID):
        raise ExpressionError(f"only a string can be cast to {name} here")
    raise ExpressionError(f"the type {name} is not supported")


def _moment(value: Any, wanted: PrimitiveType) -> TypedValue:
    """A date or timestamp; DuckDB drops the time of day where a date is wanted, and refuses numbers."""
    if isinstance(value, str):
        if isinstance(wanted, DateType):
            return TypedValue(wanted, single_value.parse_date(value.strip()))
        zoned = isinstance(wanted, (TimestamptzType, TimestamptzNanoType))
        nano = isinstance(wanted, TimestampNanoType)
        return TypedValue(wanted, parse_timestamp_text(value.strip(), zoned=zoned, nano=nano))
    total = nanoseconds(value, wanted)
    if isinstance(wanted, DateType):
        return TypedValue(wanted, total // NS_PER_DAY)
    if isinstance(wanted, TimestampNanoType):
        return TypedValue(wanted, total)
    if total % 1000:
        raise ExpressionError("it has nanoseconds, which would be lost")
    return TypedValue(wanted, total // 1000)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, str, float, Decimal)):
        raise ExpressionError(f"{value!r} is not a number")
    return Decimal(value.strip() if isinstance(value, str) else value)


def _whole(value: Any) -> int:
    number = _decimal(value)
    if number != number.to_integral_value():
        raise ExpressionError(f"{value!r} is not a whole number")
    return int(number)


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _boolean(value: bool | str) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ExpressionError(f"{value!r} is neither true nor false")
    return text == "true"


def _blob(text: str) -> bytes:
    """DuckDB's text form of binary: `\\xAB` for a byte, ASCII for itself."""
    if "".join(m[0] for m in _BLOB_PART.finditer(text)) != text:
        raise ExpressionError(f"{text!r} is not binary text: ASCII and \\xAB")
    return b"".join(bytes.fromhex(m[1]) if m[1] else m[2].encode() for m in _BLOB_PART.finditer(text))
