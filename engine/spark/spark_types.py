"""Iceberg types as Spark types and the reverse.

Each Iceberg type has two Spark types: the one that a DataFrame shows, and the *stored* one, with which Spark reads it
from Parquet without loss. They differ for uuid (STRING, stored BINARY) and nanosecond timestamps (cut to microseconds,
stored BIGINT). A time is a BIGINT of microseconds since midnight in both, fixed, geometry and geography are BINARY.
"""

from __future__ import annotations

from typing import assert_never

from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spec.schema import Schema
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
    NestedField,
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


def schema_to_spark(schema: Schema) -> T.StructType:
    """The schema of a DataFrame that reads a table of this schema; docs become comments."""
    return T.StructType([_shown_field(f) for f in schema.fields])


def shown_type(iceberg_type: Type) -> T.DataType:
    """The Spark type that a DataFrame shows for an Iceberg type. Every field is nullable, as in all file sources."""
    match iceberg_type:
        case UUIDType():
            return T.StringType()
        case TimestampNanoType():
            return T.TimestampNTZType()
        case TimestamptzNanoType():
            return T.TimestampType()
        case StructType(fields=fields):
            return T.StructType([_shown_field(f) for f in fields])
        case ListType(element=element):
            return T.ArrayType(shown_type(element))
        case MapType(key=key, value=value):
            return T.MapType(shown_type(key), shown_type(value))
        case _:
            return stored_type(iceberg_type)


def stored_type(iceberg_type: Type) -> T.DataType:  # noqa: C901  # one case a type
    """The Spark type with which a Parquet column of an Iceberg type is read."""
    match iceberg_type:
        case BooleanType():
            return T.BooleanType()
        case IntegerType():
            return T.IntegerType()
        case LongType() | TimeType() | TimestampNanoType() | TimestamptzNanoType():
            return T.LongType()
        case FloatType():
            return T.FloatType()
        case DoubleType():
            return T.DoubleType()
        case DecimalType(precision=precision, scale=scale):
            return T.DecimalType(precision, scale)
        case DateType():
            return T.DateType()
        case TimestampType():
            return T.TimestampNTZType()
        case TimestamptzType():
            return T.TimestampType()
        case StringType():
            return T.StringType()
        case UUIDType() | FixedType() | BinaryType() | GeometryType() | GeographyType():
            return T.BinaryType()
        case UnknownType():
            return T.NullType()
        case VariantType():
            return T.VariantType()
        case StructType(fields=fields):
            return T.StructType([T.StructField(f.name, stored_type(f.field_type)) for f in fields])
        case ListType(element=element):
            return T.ArrayType(stored_type(element))
        case MapType(key=key, value=value):
            return T.MapType(stored_type(key), stored_type(value))
        case _:
            assert_never(iceberg_type)


def _shown_field(f: NestedField) -> T.StructField:
    return T.StructField(f.name, shown_type(f.field_type), True, {"comment": f.doc} if f.doc else None)
