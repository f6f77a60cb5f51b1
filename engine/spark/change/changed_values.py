"""The test of an upsert: does a source have another value for a column than the table?"""

from __future__ import annotations

from icecore.engine.spark.change.compared_values import Compared, common_decimal, given_types
from icecore.engine.spark.change.merge_clause import MergeNames
from icecore.engine.spark.pyspark_api import Column
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_conform import stored_sql
from icecore.engine.spark.spark_types import shown_type
from icecore.engine.spec.types import (
    DecimalType,
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
    VariantType,
    walk,
)


def differs(field: NestedField, found: T.StructField, names: MergeNames) -> Column:
    """The condition that the table's column would get another value; one that Spark can't compare counts as another.

    Null equals null and NaN equals NaN, but -0.0 is not 0.0, as in `Table.upsert`. Raises ValidationError where the
    source's column doesn't fit the table's.
    """
    given, wanted, case_sensitive = found.dataType, field.field_type, names.case_sensitive
    stored = stored_sql(names.theirs(found.name), given, field, case_sensitive=case_sensitive)
    if not _is_comparable(given, wanted, case_sensitive):
        return F.lit(True)
    compared = Compared(wanted, given, case_sensitive)
    mine, theirs = F.expr(compared.mine(names.mine(field.name))), F.expr(compared.theirs(stored))
    same = mine.eqNullSafe(theirs)
    if any(isinstance(f.field_type, (FloatType, DoubleType)) for f in walk((field,))):
        # The text tells 0.0 and -0.0 apart; values of another type than the table's would have another text.
        texts = [(c if wanted.is_primitive else c.try_cast(shown_type(wanted))).cast("string") for c in (mine, theirs)]
        same_text = texts[0].eqNullSafe(texts[1])
        same = same & (((mine != 0) | same_text) if wanted.is_primitive else same_text)
    return ~same


def _is_comparable(found: T.DataType, wanted: Type, case_sensitive: bool) -> bool:
    """Whether Spark can compare a value of the table with one as it is stored."""
    if found.typeName() == "void":
        return True
    match wanted:
        case MapType() | VariantType() | TimestampNanoType() | TimestamptzNanoType():
            # Spark compares no maps and no variants, and of nanoseconds it sees only the microseconds.
            return False
        case StructType(fields=fields):
            given = given_types(found, wanted, case_sensitive=case_sensitive)
            return given.keys() == {f.name for f in fields} and all(
                _is_comparable(given[f.name], f.field_type, case_sensitive) for f in fields
            )
        case ListType(element=element):
            return isinstance(found, T.ArrayType) and _is_comparable(found.elementType, element, case_sensitive)
        case DecimalType():
            return common_decimal(found, shown_type(wanted)) is not None
        case TimeType():
            return bool(found.typeName() != "time")
        case _:
            return True
