"""Write defaults as SQL of Spark: the values of columns that an insert does not name. Spec: Default Values (T9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icecore.engine.errors import ValidationError
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.frame_columns import ddl, shown_primitive_sql
from icecore.engine.spark.spark_sql_text import literal, text_literal
from icecore.engine.spark.spark_types import schema_to_spark, shown_type
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    Type,
    UUIDType,
)

CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""The key of a default in the metadata of Spark's field: SQL, which Spark reads where an insert lacks the column."""

_NANOS_PER_MICRO = 1000


def write_default_sql(field: NestedField) -> str | None:
    """SQL of a field's write default, of the type that a DataFrame shows; None where it has none.

    Raises ValidationError for nanoseconds, of which Spark has none.
    """
    return None if field.write_default is None else _sql(field.field_type, field.write_default)


def with_write_defaults(schema: Schema) -> T.StructType:
    """The schema of a DataFrame that reads a table of this schema, as Spark is to know it for inserts.

    Reads do not depend on it. For a default that Spark can't have it holds no SQL but the reason, so that an insert
    without the column fails, and says why.
    """
    shown = schema_to_spark(schema)
    return T.StructType([_with_default(s, f) for s, f in zip(shown.fields, schema.fields, strict=True)])


def _with_default(shown: T.StructField, field: NestedField) -> T.StructField:
    try:
        sql = write_default_sql(field)
    except ValidationError as e:
        sql = f"-- {e}"
    metadata = shown.metadata if sql is None else {**shown.metadata, CURRENT_DEFAULT: sql}
    return T.StructField(shown.name, shown.dataType, shown.nullable, metadata)


def _sql(t: Type, value: Any) -> str:
    if value is None:
        return f"CAST(NULL AS {ddl(shown_type(t))})"
    match t:
        case StructType(fields=fields):
            return f"named_struct({', '.join(_parts(fields, value))})"
        case ListType(element=element):
            return f"CAST(array({', '.join(_sql(element, v) for v in value)}) AS {ddl(shown_type(t))})"
        case MapType(key=key, value=item):
            pairs = (f"{_sql(key, k)}, {_sql(item, v)}" for k, v in value)
            return f"CAST(map({', '.join(pairs)}) AS {ddl(shown_type(t))})"
        case UUIDType():
            return text_literal(str(value))
        case TimestampNanoType() | TimestamptzNanoType() if value % _NANOS_PER_MICRO:
            raise ValidationError("a default of nanoseconds, which Spark lacks: give the column a value, or use append")
        case _:
            return shown_primitive_sql(t, literal(t, value))


def _parts(fields: Sequence[NestedField], value: Mapping[int, Any]) -> Iterator[str]:
    for f in fields:
        yield text_literal(f.name)
        yield _sql(f.field_type, value.get(f.field_id, f.write_default))
