"""The keys of a source, as a condition of its join and as a filter of the files that can have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from icecore.engine.data.arrow.arrow_schema import type_to_arrow
from icecore.engine.data.arrow.arrow_values import from_array
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE, Expression, Predicate, PredicateOperator, Reference, TypedValue
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.spark.change.compared_values import Compared
from icecore.engine.spark.change.merge_clause import MergeNames
from icecore.engine.spark.pyspark_api import Column, DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_conform import stored_sql
from icecore.engine.spark.spark_types import shown_type
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    walk,
)

MAX_VALUES = 200
_ORDERED = (IntegerType, LongType, DateType, StringType, DecimalType, TimestampType, TimestamptzType)


def keys_condition(keys: Sequence[str], names: MergeNames, source: T.StructType, *, is_upsert: bool) -> Column:
    """Equality of key columns; an upsert compares the values that would be stored, and null equals null.

    Raises ValidationError where the table or the source lacks a key, or a key has nanoseconds, which Spark lacks.
    """
    others, out = source_keys(keys, names, source, is_upsert=is_upsert), F.lit(True)
    for key, other in others.items():
        mine = F.expr(_compared(key, names, source).mine(names.mine(key)))
        out = out & (mine.eqNullSafe(other) if is_upsert else mine == other)
    return out


def source_keys(keys: Sequence[str], names: MergeNames, source: T.StructType, *, is_upsert: bool) -> dict[str, Column]:
    """The source's values of key columns, as they are compared with the table's. Raises ValidationError."""
    common = names.common()
    for key in keys:
        _check_key(key, common, names.schema)
    out = {}
    for key in keys:
        value, compared = names.theirs(common[key]), _compared(key, names, source)
        if is_upsert:
            field = names.schema.find_field(key)
            value = stored_sql(value, compared.found, field, case_sensitive=names.case_sensitive)
        out[key] = F.expr(compared.theirs(value))
    return out


def _compared(key: str, names: MergeNames, source: T.StructType) -> Compared:
    types = {f.name: f.dataType for f in source.fields}
    return Compared(names.schema.find_field(key).field_type, types[names.common()[key]], names.case_sensitive)


def _check_key(key: str, common: Mapping[str, str], schema: Schema) -> None:
    if key not in common:
        raise ValidationError(f"the key column {key!r} must be in the table and in the source")
    types = [f.field_type for f in walk((schema.find_field(key),))]
    if any(isinstance(t, (TimestampNanoType, TimestamptzNanoType)) for t in types):
        raise ValidationError(
            f"the key column {key!r} has nanoseconds, of which Spark has none: rows that differ in them would match"
        )


def keys_filter(source: DataFrame, keys: Sequence[str], names: MergeNames, *, nulls_are_equal: bool) -> Expression:
    """A filter that each row with a key of the source satisfies: by values where these are few, else by ranges.

    At most `MAX_VALUES` keys come to the driver.
    """
    common, types = names.common(), {f.name: f.dataType for f in source.schema.fields}
    fields = [names.schema.find_field(k) for k in keys]
    fields = [f for f in fields if isinstance(f.field_type, _ORDERED) and types[common[f.name]] == _shown(f)]
    if not fields:
        return TRUE
    source = source.alias(names.source)
    columns = [F.col(names.theirs(common[f.name])).alias(f"k{i}") for i, f in enumerate(fields)]
    found = source.select(*columns).distinct().limit(MAX_VALUES + 1).toArrow()
    is_few = found.num_rows <= MAX_VALUES
    if not is_few:
        found = _extremes(source.select(*columns))
    condition: Expression = TRUE
    for f, column in zip(fields, found.columns, strict=True):
        condition = and_(condition, _filter_of(f, column.combine_chunks(), is_few, nulls_are_equal))
    return condition


def _shown(f: NestedField) -> object:
    return shown_type(f.field_type)


def _extremes(keys: DataFrame) -> pa.Table:
    """The least and the greatest value of each column, both null where it has no others."""
    least = [F.min(c).alias(c) for c in keys.columns]
    greatest = [F.max(c).alias(c) for c in keys.columns]
    return keys.agg(*least).union(keys.agg(*greatest)).toArrow()


def _filter_of(f: NestedField, column: pa.Array, is_few: bool, nulls_are_equal: bool) -> Expression:
    assert isinstance(f.field_type, PrimitiveType), "keys are ordered"
    kind, term = f.field_type, Reference(f.name)
    typed = column.cast(type_to_arrow(kind))
    values = set(from_array(kind, typed.drop_null()))
    tests: list[Expression] = []
    if values and is_few:
        tests.append(Predicate(PredicateOperator.IN, term, tuple(TypedValue(kind, v) for v in sorted(values))))
    elif values:
        low, high = TypedValue(kind, min(values)), TypedValue(kind, max(values))
        tests.append(
            and_(Predicate(PredicateOperator.GT_EQ, term, (low,)), Predicate(PredicateOperator.LT_EQ, term, (high,)))
        )
    # Whether there are nulls beside the extremes is not known.
    if nulls_are_equal and (typed.null_count or not is_few):
        tests.append(Predicate(PredicateOperator.IS_NULL, term))
    return or_(*tests)
