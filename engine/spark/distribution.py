"""The distribution and order of rows, so that a task writes few, full files."""

from __future__ import annotations

from collections.abc import Mapping

from icecore.engine.properties.table_properties import DISTRIBUTION_MODE
from icecore.engine.spark.name_rule import says_true
from icecore.engine.spark.pyspark_api import Column, DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_conform import conformed_path
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spark.spark_transforms import transform_column
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import NullOrder, SortDirection, SortOrder
from icecore.engine.spec.transform import Transform
from icecore.engine.spec.types import UnknownType, UUIDType

_ADAPTIVE = "spark.sql.adaptive.enabled"


def distribute(
    df: DataFrame, *, schema: Schema, spec: PartitionSpec, sort_order: SortOrder | None, properties: Mapping[str, str]
) -> DataFrame:
    """A conformed frame with the rows of a partition together and, inside of it, in the sort order.

    The table property `write.distribution-mode` says how rows move: `none`, `hash` (by partition, the default; Spark
    splits partitions that are large and joins small ones) or `range` (by partition and sort order). Raises
    ValidationError for another mode.
    """
    mode = DISTRIBUTION_MODE.of(properties)
    shown = df.columns
    helpers: list[Column] = []

    def helper(transform: Transform, source_id: int) -> Column | None:
        """A column added for the shuffle and the sort, so that it is computed once."""
        column = _computed(df, schema, transform, source_id)
        if column is None:
            return None
        name = f"helper{len(helpers)}"
        helpers.append(column.alias(name))
        return F.col(name)

    partition = [c for f in spec.fields if (c := helper(f.transform, f.source_id)) is not None]
    order = []
    for f in sort_order.fields if sort_order else ():
        column = helper(f.transform, f.source_id)
        if column is not None:
            order.append(_ordered(column, f.direction, f.null_order))
    if not partition and not order:
        return df
    out = df.select(*shown, *helpers)
    if mode == "range":
        # By columns alone: with a number of partitions Spark would not join small ones.
        out = out.repartitionByRange(*partition, *order)
    elif mode == "hash" and partition:
        out = out.hint("rebalance", *partition)
    return out.sortWithinPartitions(*partition, *order).select(*shown)


def is_shuffled(df: DataFrame, schema: Schema, spec: PartitionSpec, properties: Mapping[str, str]) -> bool:
    """Whether `distribute` shuffles rows by partition, so that no task has rows before all are computed.

    A session without adaptive execution leaves rows of mode `hash` where they are.
    """
    mode = DISTRIBUTION_MODE.of(properties)
    if mode != "range" and not (mode == "hash" and says_true(df.sparkSession.conf.get(_ADAPTIVE, "true"))):
        return False
    return any(_computed(df, schema, f.transform, f.source_id) is not None for f in spec.fields)


def _computed(df: DataFrame, schema: Schema, transform: Transform, source_id: int) -> Column | None:
    """The transform of a column of the DataFrame; None where all its values are the same."""
    source = schema.get_field(source_id)
    if source is None or isinstance(source.field_type, UnknownType):
        return None
    path = conformed_path(schema, source_id)
    found = _type_at(df.schema, path)
    if found is None:
        return None
    value = quote(*path)
    if isinstance(source.field_type, UUIDType) and found.typeName() != "binary":
        value = f"unhex(replace({value}, '-', ''))"
    return transform_column(transform, source.primitive_type, value)


def _type_at(struct: T.StructType, path: tuple[str, ...]) -> T.DataType | None:
    """The type of a column or field of a struct; None where the data lacks it."""
    current: T.DataType = struct
    for name in path:
        found = [f for f in current.fields if f.name == name] if isinstance(current, T.StructType) else []
        if not found:
            return None
        current = found[0].dataType
    return current


def _ordered(column: Column, direction: SortDirection, nulls: NullOrder) -> Column:
    if direction is SortDirection.ASC:
        return column.asc_nulls_first() if nulls is NullOrder.NULLS_FIRST else column.asc_nulls_last()
    return column.desc_nulls_first() if nulls is NullOrder.NULLS_FIRST else column.desc_nulls_last()
