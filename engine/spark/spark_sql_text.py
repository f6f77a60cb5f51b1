"""Pieces of Spark SQL text: names, literals and nested values rebuilt.

Text rather than Column objects, because it is the same in classic mode and in Connect, and lambdas over lists and maps
nest freely. No text from outside enters it except through `quote` and `text_literal`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, assert_never
from uuid import UUID

from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UUIDType,
    VariantType,
)

_PLAIN_TEXT = re.compile(r"[A-Za-z0-9 ,.:;/@+=_-]*")
_variables = itertools.count()


def quote(*path: str) -> str:
    """A column, or a field inside struct columns.

    Raises ValidationError for a name with `${` where the session would put a variable's value there, backticks or not.
    """
    named = next((name for name in path if "${" in name), None)
    if named is not None and _substitutes_variables():
        raise ValidationError(
            f"Spark would put a variable's value into the name {named!r} and might read another column: set "
            "spark.sql.variable.substitute to false in the session"
        )
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def _substitutes_variables() -> bool:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return session is None or str(session.conf.get("spark.sql.variable.substitute", "true")).lower() == "true"


def text_literal(text: str) -> str:
    """A string literal that means the same whatever the parser's settings for escapes."""
    if _PLAIN_TEXT.fullmatch(text):
        return f"'{text}'"
    return f"CAST(X'{text.encode('utf-8', 'surrogatepass').hex()}' AS STRING)"


def literal(iceberg_type: Type, value: Any) -> str:  # noqa: C901  # one case a type
    """An internal value (see `single_value`) as a constant expression of the type's stored Spark type.

    Dates and timestamps go as numbers, or as text that no session zone touches, so any value the type can hold fits.
    Raises ValidationError for variants and nested types.
    """
    if value is None:
        return "NULL"
    match iceberg_type:
        case BooleanType():
            return "TRUE" if value else "FALSE"
        case IntegerType():
            return f"CAST('{int(value)}' AS INT)"
        case LongType() | TimeType() | TimestampNanoType() | TimestamptzNanoType():
            # The least long can't be written as a literal, because the minus is not part of it.
            return f"CAST('{int(value)}' AS BIGINT)"
        case FloatType() | DoubleType():
            return f"CAST('{_float_text(value)}' AS {'FLOAT' if isinstance(iceberg_type, FloatType) else 'DOUBLE'})"
        case DecimalType(precision=precision, scale=scale):
            return f"CAST('{Decimal(value):f}' AS DECIMAL({precision}, {scale}))"
        case DateType():
            return f"date_from_unix_date(CAST('{int(value)}' AS INT))"
        case TimestamptzType():
            return f"timestamp_micros(CAST('{int(value)}' AS BIGINT))"
        case TimestampType():
            return f"TIMESTAMP_NTZ '{single_value.format_timestamp(value, with_zone=False)}'"
        case StringType():
            return text_literal(value)
        case UUIDType():
            return f"X'{(value if isinstance(value, UUID) else UUID(str(value))).hex}'"
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return f"X'{bytes(value).hex()}'"
        case UnknownType():
            return "NULL"
        case VariantType() | StructType() | ListType() | MapType():
            raise ValidationError(f"a value of type {iceberg_type} can't be written as a literal")
        case _:
            assert_never(iceberg_type)


def struct_of(value: str, fields: Iterable[tuple[str, str]]) -> str:
    """A struct of (name, SQL) that is null where `value`, a struct, is null."""
    inner = ", ".join(f"{text_literal(name)}, {sql}" for name, sql in fields)
    return f"IF({value} IS NULL, NULL, named_struct({inner}))"


def list_of(value: str, element: Callable[[str], str]) -> str:
    """A list with each element put through SQL."""
    x = _variable()
    return f"transform({value}, {x} -> {element(x)})"


def map_of(value: str, key: Callable[[str], str] | None, item: Callable[[str], str] | None) -> str:
    """A map with its keys and values put through SQL; distinct keys must stay distinct."""
    if item is not None:
        k, v = _variable(), _variable()
        value = f"transform_values({value}, ({k}, {v}) -> {item(v)})"
    if key is not None:
        k, v = _variable(), _variable()
        value = f"transform_keys({value}, ({k}, {v}) -> {key(k)})"
    return value


def _variable() -> str:
    return f"__v{next(_variables)}"


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(float(value))
