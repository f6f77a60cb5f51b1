"""Iceberg types as Spark types and the reverse.

Each Iceberg type has two Spark types: the one that a DataFrame shows, and the *stored* one, with which Spark reads it
from Parquet without loss. They differ for uuid (STRING, stored BINARY) and nanosecond timestamps (cut to microseconds,
stored BIGINT). A time is a BIGINT of microseconds since midnight in both, fixed, geometry and geography are BINARY.
"""

from __future__ import annotations

import itertools
from typing import assert_never

from icecore.engine.data.arrow.arrow_schema import assign_fresh_ids
from icecore.engine.errors import ValidationError
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spec.schema import Schema, check_format_version
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


def spark_to_schema(struct: T.StructType, *, format_version: int = 2, keep_required: bool = False) -> Schema:
    """The Iceberg schema that holds a DataFrame's rows, with fresh ids; comments become docs.

    TINYINT and SMALLINT widen to int, CHAR and VARCHAR are strings, TIME is a time. All columns are optional, as in a
    table that Spark makes from a query, because what a query can't make null the next one may; `keep_required` makes
    those required that the DataFrame says are never null. Raises ValidationError naming the column whose type Iceberg
    lacks, or the format version lacks.
    """
    reader = _SparkReader(keep_required)
    schema = assign_fresh_ids(Schema(tuple(reader.field(f, f.name) for f in struct.fields)))
    check_format_version(schema, format_version)
    return schema


def _shown_field(f: NestedField) -> T.StructField:
    return T.StructField(f.name, shown_type(f.field_type), True, {"comment": f.doc} if f.doc else None)


_PLAIN: dict[str, Type] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "string": StringType(),
    "char": StringType(),
    "varchar": StringType(),
    "binary": BinaryType(),
    "void": UnknownType(),
    "variant": VariantType(),
}


class _SparkReader:
    """Spark types as Iceberg types with throw-away ids."""

    def __init__(self, keep_required: bool) -> None:
        self.keep_required = keep_required
        self.ids = itertools.count(1)

    def field(self, f: T.StructField, path: str) -> NestedField:
        doc = (f.metadata or {}).get("comment")
        return NestedField(next(self.ids), f.name, self.type(f.dataType, path), self.required(f.nullable), doc)

    def required(self, nullable: bool) -> bool:
        return self.keep_required and not nullable

    def type(self, t: T.DataType, path: str) -> Type:
        if isinstance(t, T.StructType):
            return StructType(tuple(self.field(f, f"{path}.{f.name}") for f in t.fields))
        if isinstance(t, T.ArrayType):
            element = self.type(t.elementType, f"{path}.element")
            return ListType(next(self.ids), element, self.required(t.containsNull))
        if isinstance(t, T.MapType):
            key, value = self.type(t.keyType, f"{path}.key"), self.type(t.valueType, f"{path}.value")
            return MapType(next(self.ids), key, next(self.ids), value, self.required(t.valueContainsNull))
        if isinstance(t, T.DecimalType):
            return DecimalType(t.precision, t.scale)
        found = _PLAIN.get(t.typeName())
        if found is None:
            raise ValidationError(f"column {path!r}: Spark type {t.simpleString()} has no Iceberg type")
        return found
