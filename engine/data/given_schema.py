"""Schemas as users give them: icecore's own, Arrow's or Spark's."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.data.spark_schema import SparkSchema, is_spark_type, spark_to_schema
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema

SchemaLike: TypeAlias = Schema | pa.Schema | SparkSchema


def given_schema(given: SchemaLike, *, format_version: int) -> Schema:
    """The schema, with fresh ids unless it is one already.

    Columns of a Spark schema are optional and their comments are docs, see `spark_to_schema`. Raises ValidationError
    for anything else, and where the format version lacks a type.
    """
    if isinstance(given, Schema):
        return given
    if isinstance(given, pa.Schema):
        return arrow_to_schema(given, format_version=format_version)
    if is_spark_type(given) and hasattr(given, "fieldNames"):
        return spark_to_schema(given, format_version=format_version)
    hint = ": give its schema" if isinstance(getattr(type(given), "schema", None), property) else ""
    raise ValidationError(f"a schema must be an icecore, pyarrow or Spark schema, found {type(given).__name__}{hint}")
