"""Rows of scan tasks as Spark reads them, in both of its ways."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pytest
from spark_tables import STORAGE, metadata_of, schema_of

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spark.read.scan_to_spark import read_tasks
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import LongType, NestedField, StringType, StructType

LONG, STRING = LongType(), StringType()


@pytest.fixture
def spark(either_way: Any) -> Any:
    """All that asks for it is read in both ways."""
    return either_way


TWO = schema_of((1, "id", LONG), (2, "name", STRING))


def rows(
    spark: Any,
    tasks: Sequence[FileScanTask],
    schema: Schema,
    *,
    metadata: TableMetadata | None = None,
    where: str | None = None,
    columns: Sequence[str] = ("*",),
) -> list[tuple[Any, ...]]:
    """The rows that Spark reads, sorted as text."""
    bound = None if where is None else bind(parse_filter(where), schema)
    frame = read_tasks(
        spark,
        tasks,
        projection=schema.select(columns),
        metadata=metadata or metadata_of(schema),
        storage=STORAGE,
        filter=bound,
    )
    return sorted((_tuples(r) for r in frame.collect()), key=repr)


def _tuples(value: Any) -> Any:
    """Spark's rows as plain tuples, at any depth."""
    if isinstance(value, tuple):
        return tuple(_tuples(v) for v in value)
    return [_tuples(v) for v in value] if isinstance(value, list) else value


A_UUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")


def pushed(spark: Any, tasks: Sequence[FileScanTask], metadata: TableMetadata, *where: str) -> list[int]:
    """How many rows each of a user's own filters on the DataFrame leaves, which Spark pushes down; in one job."""
    schema = metadata.schema()
    frame = read_tasks(spark, tasks, projection=schema, metadata=metadata, storage=STORAGE)
    left = [frame.where(text).selectExpr(f"{i} AS i") for i, text in enumerate(where)]
    found = Counter(r.i for r in reduce(lambda a, b: a.union(b), left).collect())
    return [found[i] for i in range(len(where))]


def inner_of(field_id: int) -> StructType:
    return StructType((NestedField(field_id, "v", LONG),))
