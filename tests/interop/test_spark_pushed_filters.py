"""A user's filters, which Spark pushes down by name and compares as Parquet does, leave exactly their rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_reading import LONG, pushed, rows, spark  # noqa: E402
from spark_tables import metadata_of, schema_of, tasks_of, write  # noqa: E402

from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    NestedField,
    StructType,
    TimestampType,
)

__all__ = ["spark"]


def test_trap_1_swapped_names(spark: Any, tmp_path: Path) -> None:
    """Columns whose names were exchanged are filtered by their own values."""
    old = schema_of((1, "a", LONG), (2, "b", LONG))
    new = schema_of((2, "a", LONG), (1, "b", LONG), schema_id=1)
    file = write(tmp_path, old, {"a": list(range(100)), "b": list(range(1000, 1100))})[0]
    metadata = metadata_of(old, new)
    assert pushed(spark, tasks_of([file]), metadata, "a = 1005") == [1]
    assert rows(spark, tasks_of([file]), new, metadata=metadata, where="a = 1005") == [(1005, 5)]


@pytest.mark.parametrize("where", ["a = 42", "a IS NULL", "a < 0"])
def test_trap_1_a_name_used_again(spark: Any, tmp_path: Path, where: str) -> None:
    """A new column under a dropped column's name is null, or its default, in old files."""
    old = schema_of((1, "a", LONG), (2, "b", LONG))
    default = {"a = 42": 42, "a IS NULL": None, "a < 0": -5}[where]
    new = Schema((NestedField(2, "b", LONG), NestedField(3, "a", LONG, initial_default=default)), 1)
    file = write(tmp_path, old, {"a": list(range(100)), "b": list(range(100))})[0]
    metadata = metadata_of(old, new)
    assert pushed(spark, tasks_of([file]), metadata, where) == [100]
    assert len(rows(spark, tasks_of([file]), new, metadata=metadata, where=where)) == 100


def test_trap_1_a_nested_name_used_again(spark: Any, tmp_path: Path) -> None:
    old = schema_of((1, "st", StructType((NestedField(2, "x", LONG), NestedField(3, "y", LONG)))))
    new = schema_of((1, "st", StructType((NestedField(3, "y", LONG), NestedField(4, "x", LONG)))), schema_id=1)
    file = write(tmp_path, old, {"st": [{"x": i, "y": i} for i in range(10)] + [None]})[0]
    metadata = metadata_of(old, new)
    assert pushed(spark, tasks_of([file]), metadata, "st.x IS NULL", "st IS NULL") == [11, 1]
    assert rows(spark, tasks_of([file]), new, metadata=metadata, where="st.y = 3") == [((3, None),)]


def test_trap_1_names_that_differ_in_case(spark: Any, tmp_path: Path) -> None:
    schema = schema_of((1, "a", LONG), (2, "A", LONG))
    file = write(tmp_path, schema, {"a": [1, 2], "A": [10, 20]})[0]
    assert rows(spark, tasks_of([file]), schema, where="A = 20") == [(2, 20)]


def test_trap_1_removed_schemas_leave_no_name_safe(spark: Any, tmp_path: Path) -> None:
    """The schema in which id 1 was called `a` is gone from the metadata, the file is still there."""
    old = schema_of((1, "a", LONG), (2, "b", LONG))
    new = schema_of((1, "b2", LONG), (2, "a", LONG), schema_id=3)
    file = write(tmp_path, old, {"a": list(range(100)), "b": list(range(1000, 1100))})[0]
    assert pushed(spark, tasks_of([file]), metadata_of(new), "a = 1005") == [1]


def test_parquet_statistics_leave_out_nan(spark: Any, tmp_path: Path) -> None:
    """NaN is greater than all numbers, and -0.0 equals 0.0, in filters that Spark would push down too."""
    schema = schema_of((1, "x", DoubleType()), (2, "st", StructType((NestedField(3, "y", DoubleType()),))))
    file = write(tmp_path, schema, {"x": [1.0, float("nan"), -0.0], "st": [{"y": float("nan")}, None, None]})[0]
    metadata = metadata_of(schema)
    filters = "x > 5", "x = CAST('NaN' AS DOUBLE)", "x = 0.0D", "st.y > 5"
    assert pushed(spark, tasks_of([file]), metadata, *filters) == [1, 1, 1, 1]


def test_promoted_columns(spark: Any, tmp_path: Path) -> None:
    """Files from before a promotion are read and filtered as the wider type, beyond the range of the narrow one too."""
    old = schema_of((1, "i", IntegerType()), (2, "f", FloatType()), (3, "d", DecimalType(9, 2)), (4, "t", DateType()))
    new = schema_of(
        (1, "i", LONG), (2, "f", DoubleType()), (3, "d", DecimalType(18, 2)), (4, "t", TimestampType()), schema_id=1
    )
    before = write(tmp_path, old, {"i": [1], "f": [0.5], "d": [Decimal("1.25")], "t": [1]})[0]
    after = write(tmp_path, new, {"i": [2**40], "f": [0.1], "d": [Decimal("99999999999.99")], "t": [5]})[0]
    tasks, metadata = tasks_of([before, after]), metadata_of(old, new)
    assert rows(spark, tasks, new, metadata=metadata) == [
        (1, 0.5, Decimal("1.25"), dt.datetime(1970, 1, 2)),
        (2**40, 0.1, Decimal("99999999999.99"), dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
    ]
    # Spark's pushdown cuts this literal to 32 bits, where it is negative.
    filters = "d < 30000000.00", "i < 3000000000", "t >= TIMESTAMP_NTZ '1970-01-02 00:00:00'"
    assert pushed(spark, tasks, metadata, *filters) == [1, 1, 1]
