"""Spark's schemas as Iceberg's, read by the names of Spark's types, so that PySpark is not imported."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

from icecore.engine.data.arrow.arrow_schema import assign_fresh_ids
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema, check_format_version
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    VariantType,
)


class SparkSchema(Protocol):
    """The schema of a Spark DataFrame, a `pyspark.sql.types.StructType`."""

    def fieldNames(self) -> list[str]: ...

    def simpleString(self) -> str: ...


def is_spark(data: Any) -> bool:
    """Whether the data is a Spark DataFrame, found out without importing Spark."""
    return any(c.__module__.startswith("pyspark.sql") and c.__name__ == "DataFrame" for c in type(data).__mro__)


def is_spark_type(given: object) -> bool:
    """Whether that is a type or schema of Spark's, found out without importing Spark."""
    return any(c.__module__ == "pyspark.sql.types" and c.__name__ == "DataType" for c in type(given).__mro__)


def spark_to_type(given: Any) -> Type:
    """The Iceberg type of a Spark type, with throw-away ids. Raises ValidationError where there is none."""
    return _SparkReader().type(given, "column")


def spark_to_schema(struct: Any, *, format_version: int = 2) -> Schema:
    """The Iceberg schema that holds a DataFrame's rows, with fresh ids; comments become docs.

    TINYINT and SMALLINT widen to int, CHAR and VARCHAR are strings, TIME is a time. All columns are optional, as in a
    table that Spark makes from a query: a column without nulls in this query may have some in the next. Raises
    ValidationError naming the column whose type Iceberg lacks, or the format version lacks.
    """
    reader = _SparkReader()
    schema = assign_fresh_ids(Schema(tuple(reader.field(f, f.name) for f in struct.fields)))
    check_format_version(schema, format_version)
    return schema


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

    def __init__(self) -> None:
        self.ids = itertools.count(1)

    def field(self, f: Any, path: str) -> NestedField:
        doc = (f.metadata or {}).get("comment")
        return NestedField(next(self.ids), f.name, self.type(f.dataType, path), doc=doc)

    def type(self, t: Any, path: str) -> Type:
        kind = t.typeName()
        if kind == "struct":
            return StructType(tuple(self.field(f, f"{path}.{f.name}") for f in t.fields))
        if kind == "array":
            element = self.type(t.elementType, f"{path}.element")
            return ListType(next(self.ids), element)
        if kind == "map":
            key, value = self.type(t.keyType, f"{path}.key"), self.type(t.valueType, f"{path}.value")
            return MapType(next(self.ids), key, next(self.ids), value)
        if kind == "decimal":
            return DecimalType(t.precision, t.scale)
        found = _PLAIN.get(kind)
        if found is None:
            raise ValidationError(f"column {path!r}: Spark type {t.simpleString()} has no Iceberg type")
        return found
