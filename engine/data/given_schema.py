"""Schemas, partition specs and sort orders as users give them: icecore's own, Arrow's, Spark's or PyIceberg's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.data.pyiceberg_values import (
    PyIcebergValue,
    is_pyiceberg_value,
    order_of_pyiceberg,
    schema_of_pyiceberg,
    spec_of_pyiceberg,
)
from icecore.engine.data.spark_schema import SparkSchema, is_spark_type, spark_to_schema
from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder

SchemaLike: TypeAlias = Schema | pa.Schema | SparkSchema | PyIcebergValue
PartitionSpecLike: TypeAlias = PartitionSpec | Sequence[str] | PyIcebergValue
SortOrderLike: TypeAlias = SortOrder | Sequence[str] | PyIcebergValue


def given_schema(given: SchemaLike, *, format_version: int) -> Schema:
    """The Iceberg schema. Arrow and Spark schemas get fresh field ids; icecore's and PyIceberg's keep theirs.

    Columns of a Spark schema are optional and their comments are docs, see `spark_to_schema`. Raises ValidationError
    for anything else, and where the format version lacks a type.
    """
    if isinstance(given, Schema):
        return given
    if hasattr(given, "__arrow_c_schema__"):
        return arrow_to_schema(_as_arrow(given), format_version=format_version)
    if is_pyiceberg_value(given):
        return schema_of_pyiceberg(given)
    if is_spark_type(given) and hasattr(given, "fieldNames"):
        return spark_to_schema(given, format_version=format_version)
    hint = ": give its schema" if hasattr(type(given), "schema") else ""
    raise ValidationError(
        f"a schema must be an icecore, pyarrow, Spark or PyIceberg schema, found {type(given).__name__}{hint}"
    )


def _as_arrow(given: SchemaLike) -> pa.Schema:
    """The Arrow schema of an object with `__arrow_c_schema__`, as Polars' schemas have it. Raises ValidationError."""
    if isinstance(given, pa.Schema):
        # Not by way of the C interface, which cuts names at a NUL.
        return given
    try:
        return pa.schema(given)
    except pa.ArrowInvalid as e:
        raise ValidationError(f"{given} is no schema: {e}") from e


def given_spec(given: PartitionSpecLike | None) -> PartitionSpec | Sequence[str] | None:
    """The partition spec, or its terms as given. Raises ValidationError for another kind of PyIceberg value."""
    return spec_of_pyiceberg(given) if is_pyiceberg_value(given) else given  # type: ignore[return-value]  # it is not PyIceberg's


def given_order(given: SortOrderLike | None) -> SortOrder | Sequence[str] | None:
    """The sort order, or its terms as given. Raises ValidationError for another kind of PyIceberg value."""
    return order_of_pyiceberg(given) if is_pyiceberg_value(given) else given  # type: ignore[return-value]  # it is not PyIceberg's
