"""Types of the columns of planning tables in DuckDB."""

from __future__ import annotations

from icecore.engine.spec.types import (
    TIMESTAMP_TYPES,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimeType,
    Type,
    UUIDType,
)


def raw_type(iceberg_type: Type) -> str | None:
    """The DuckDB type of raw values in planning tables; None for types that have no order here."""
    match iceberg_type:
        case BooleanType():
            return "BOOLEAN"
        case IntegerType() | DateType():
            return "INTEGER"
        case LongType() | TimeType():
            return "BIGINT"
        case FloatType():
            return "FLOAT"
        case DoubleType():
            return "DOUBLE"
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case StringType():
            return "VARCHAR"
        case UUIDType() | FixedType() | BinaryType():
            return "BLOB"
        case _:
            return "BIGINT" if isinstance(iceberg_type, TIMESTAMP_TYPES) else None
