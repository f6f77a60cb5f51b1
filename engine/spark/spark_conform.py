"""DataFrames conformed to a table's schema before they are written.

Names and types are checked on the driver, so that a mistake is found before any task starts. What Arrow can cast
without loss (see `engine/data/write/conform.py`) is left to the tasks; the rest of Spark's store assignment is cast
here.
"""

from __future__ import annotations

from icecore.engine.errors import ValidationError
from icecore.engine.spark.name_rule import KnownNames, is_case_sensitive
from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.write_defaults import write_default_sql
from icecore.engine.spark.spark_sql_text import list_of, map_of, quote, struct_of
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
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

_INTEGERS = ("byte", "short", "integer", "long")
_TEXTS = ("string", "char", "varchar")
_FLOATS = ("float", "double")
_TIMESTAMPS = ("timestamp", "timestamp_ntz")

# Spark types that the tasks take as they are.
_ACCEPTED: dict[type, tuple[str, ...]] = {
    BooleanType: ("boolean",),
    IntegerType: _INTEGERS,
    LongType: _INTEGERS,
    FloatType: ("float",),
    DoubleType: _FLOATS,
    DecimalType: (*_INTEGERS, "decimal"),
    DateType: ("date",),
    TimeType: ("time", *_INTEGERS),
    TimestampType: ("timestamp_ntz",),
    TimestamptzType: ("timestamp",),
    TimestampNanoType: ("timestamp_ntz",),
    TimestamptzNanoType: ("timestamp",),
    StringType: _TEXTS,
    UUIDType: (*_TEXTS, "binary"),
    FixedType: ("binary",),
    BinaryType: ("binary",),
    UnknownType: (),
    VariantType: ("variant",),
}
# Spark types that Spark casts first, with the type that it casts to.
_CAST: dict[type, tuple[tuple[str, ...], str]] = {
    FloatType: ((*_INTEGERS, "double", "decimal"), "FLOAT"),
    DoubleType: ((*_INTEGERS, "decimal"), "DOUBLE"),
    TimestampType: (("date", *_TIMESTAMPS), "TIMESTAMP_NTZ"),
    TimestamptzType: (("date", *_TIMESTAMPS), "TIMESTAMP_LTZ"),
    TimestampNanoType: (("date", *_TIMESTAMPS), "TIMESTAMP_NTZ"),
    TimestamptzNanoType: (("date", *_TIMESTAMPS), "TIMESTAMP_LTZ"),
}


def column_name(field_id: int) -> str:
    """The name of a table's column in a conformed frame, which Spark can tell from all others, unlike the table's."""
    return f"f{field_id}"


def conformed_path(schema: Schema, field_id: int) -> tuple[str, ...]:
    """The path of names in a conformed frame to a column or a field of structs."""
    return (column_name(schema.id_path(field_id)[0]), *schema.path(field_id)[1:])


def conform_frame(df: DataFrame, schema: Schema) -> DataFrame:
    """The DataFrame's columns in the order and of types that the table can take, each named by `column_name`.

    Columns are matched by name, fields of structs too; case matters only where Spark is told so. Columns that are
    missing are left out if they are optional or have a write default; fields inside of structs get theirs. Numbers
    become float or double by rounding, dates and timestamps without zone become instants in the session's zone and the
    reverse, as in Spark's INSERT; integers and decimals may narrow as long as every value fits. Raises ValidationError
    naming the column that is unknown, missing though required, or of a type that doesn't fit.
    """
    case_sensitive = is_case_sensitive(df.sparkSession)
    taken = _match(df.schema.fields, schema.fields, "", case_sensitive)
    if not taken:
        raise ValidationError("the data has no column of the table")
    # By place, since the session may take two names for the same.
    placed = [f"c{i}" for i in range(len(df.schema.fields))]
    columns = []
    for f, position in taken:
        value = placed[position]
        sql = _stored(value, df.schema.fields[position].dataType, f.field_type, f.name, case_sensitive)
        columns.append(F.expr(sql or value).alias(column_name(f.field_id)))
    return df.toDF(*placed).select(*columns)


def check_conforms(found: T.StructType, schema: Schema, *, case_sensitive: bool = False) -> None:
    """Raises ValidationError where `conform_frame` would, of a DataFrame with these columns."""
    taken = _match(found.fields, schema.fields, "", case_sensitive)
    if not taken:
        raise ValidationError("the data has no column of the table")
    for f, position in taken:
        _stored("x", found.fields[position].dataType, f.field_type, f.name, case_sensitive)


def stored_sql(value: str, found: T.DataType, field: NestedField, *, case_sensitive: bool) -> str:
    """SQL of a value as `conform_frame` gives it to a column of the table.

    Raises ValidationError where its type doesn't fit.
    """
    return _stored(value, found, field.field_type, field.name, case_sensitive) or value


def _match(
    found: list[T.StructField], fields: tuple[NestedField, ...], prefix: str, case_sensitive: bool
) -> list[tuple[NestedField, int]]:
    """The table's fields that are there, each with its position in the data."""
    known = KnownNames((f.name for f in fields), case_sensitive=case_sensitive)
    positions: dict[int, int] = {}
    for position, source in enumerate(found):
        i = known.place(source.name)
        if i is None:
            there = ", ".join(sorted(known.names))
            raise ValidationError(f"no column {prefix + source.name!r} in the schema; there are: {there}")
        if i in positions:
            raise ValidationError(f"column {prefix + source.name!r} comes twice in the data")
        positions[i] = position
    for n, f in enumerate(fields):
        if n not in positions and f.required and f.write_default is None:
            raise ValidationError(f"the required column {prefix + f.name!r} is missing in the data and has no default")
    return [(f, positions[n]) for n, f in enumerate(fields) if n in positions]


def _stored(value: str, found: T.DataType, wanted: Type, path: str, case_sensitive: bool) -> str | None:
    """SQL that makes a value fit, or None where it fits already."""
    if found.typeName() == "void":
        return None
    match wanted:
        case StructType(fields=fields) if isinstance(found, T.StructType):
            return _stored_struct(value, found, fields, path, case_sensitive)
        case ListType(element=element) if isinstance(found, T.ArrayType):
            inner = _stored("x", found.elementType, element, f"{path}.element", case_sensitive)
            if inner is None:
                return None
            return list_of(value, lambda x: _again(x, found.elementType, element, case_sensitive))
        case MapType(key=key, value=item) if isinstance(found, T.MapType):
            new_key = _stored("x", found.keyType, key, f"{path}.key", case_sensitive)
            new_item = _stored("x", found.valueType, item, f"{path}.value", case_sensitive)
            if new_key is None and new_item is None:
                return None
            return map_of(
                value,
                None if new_key is None else lambda x: _again(x, found.keyType, key, case_sensitive),
                None if new_item is None else lambda x: _again(x, found.valueType, item, case_sensitive),
            )
        case _:
            return _stored_primitive(value, found, wanted, path)


def _again(value: str, found: T.DataType, wanted: Type, case_sensitive: bool) -> str:
    return _stored(value, found, wanted, "", case_sensitive) or value


def _stored_struct(
    value: str, found: T.StructType, fields: tuple[NestedField, ...], path: str, case_sensitive: bool
) -> str | None:
    matched = _match(found.fields, fields, f"{path}.", case_sensitive)
    parts, changed = [], [position for _, position in matched] != list(range(len(matched)))
    for f, position in matched:
        source = found.fields[position]
        inner = f"{value}.{quote(source.name)}"
        sql = _stored(inner, source.dataType, f.field_type, f"{path}.{f.name}", case_sensitive)
        changed = changed or sql is not None or source.name != f.name
        parts.append((f.name, sql or inner))
    # Defaults are set here, since a union with rows that have the field would fill it with nulls.
    present = {f.field_id for f, _ in matched}
    missing = [(f.name, sql) for f in fields if f.field_id not in present and (sql := _default(f)) is not None]
    return struct_of(value, parts + missing) if changed or missing else None


def _default(field: NestedField) -> str | None:
    """SQL of a write default; None for one that Spark can't have, which is left to the tasks."""
    try:
        return write_default_sql(field)
    except ValidationError:
        return None


def _stored_primitive(value: str, found: T.DataType, wanted: Type, path: str) -> str | None:
    kind = found.typeName()
    if kind in _ACCEPTED.get(type(wanted), ()):
        return None
    sources, target = _CAST.get(type(wanted), ((), ""))
    if kind in sources:
        return f"CAST({value} AS {target})"
    raise ValidationError(f"column {path!r}: the table has {wanted}, the data has Spark type {found.simpleString()}")
