"""The test of an upsert: does a source have another value for a column than the table?"""

from __future__ import annotations

from icecore.engine.spark.change.merge_clause import MergeNames
from icecore.engine.spark.pyspark_api import Column
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_conform import stored_sql
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spec.types import (
    DoubleType,
    FloatType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    Type,
    UUIDType,
    VariantType,
    walk,
)


def differs(field: NestedField, found: T.StructField, names: MergeNames) -> Column:
    """The condition that the table's column would get another value; what Spark can't compare counts as another.

    Null equals null and NaN equals NaN, but -0.0 is not 0.0, as in `Table.upsert`. Raises ValidationError where the
    source's column doesn't fit the table's.
    """
    stored = stored_sql(quote(names.source, found.name), found.dataType, field, case_sensitive=names.case_sensitive)
    if not _is_comparable(found.dataType, field.field_type):
        return F.lit(True)
    mine, theirs = F.col(quote(names.target, field.name)), F.expr(stored)
    same = mine.eqNullSafe(theirs)
    if any(isinstance(f.field_type, (FloatType, DoubleType)) for f in walk((field,))):
        # The text tells both zeros apart.
        same_text = mine.cast("string").eqNullSafe(theirs.cast("string"))
        same = same & (((mine != 0) | same_text) if field.field_type.is_primitive else same_text)
    return ~same


def _is_comparable(found: T.DataType, wanted: Type) -> bool:
    """Whether Spark can compare a value of the table with one as it is stored."""
    if found.typeName() == "void":
        return True
    match wanted:
        case MapType() | VariantType() | TimestampNanoType() | TimestamptzNanoType():
            # Spark compares no maps and no variants, and of nanoseconds it sees only the microseconds.
            return False
        case StructType(fields=fields):
            given = {f.name.lower(): f.dataType for f in found.fields} if isinstance(found, T.StructType) else {}
            return given.keys() == {f.name.lower() for f in fields} and all(
                _is_comparable(given[f.name.lower()], f.field_type) for f in fields
            )
        case ListType(element=element):
            return isinstance(found, T.ArrayType) and _is_comparable(found.elementType, element)
        case TimeType():
            return bool(found.typeName() != "time")
        case UUIDType():
            return bool(found.typeName() != "binary")
        case _:
            return True
