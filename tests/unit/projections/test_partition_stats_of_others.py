"""Partition statistics of many types, and of tables of other writers. Spec: Partition Statistics File (MD5)."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from partition_counts import check_counts, computed, spec

import icecore
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import PartitionStatisticsFile
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
)
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)
from icecore.engine.storage.file_io import Storage
from icecore.projections.inspect.partition_statistics import (
    read_partition_stats,
)

CORPUS = Path(os.environ.get("ICECORE_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))


def test_md5_partition_values_of_many_types(catalog: icecore.Catalog) -> None:
    """Random rows partitioned by everything that has a file, counted in SQL, in Python and by reading the rows."""
    schema = Schema(
        (
            NestedField(1, "day", DateType()),
            NestedField(2, "at", TimestamptzType()),
            NestedField(3, "amount", DecimalType(9, 2)),
            NestedField(4, "who", UUIDType()),
            NestedField(5, "score", DoubleType()),
            NestedField(6, "text", StringType()),
        )
    )
    fields = (
        (1, IdentityTransform(), "day"),
        (2, DayTransform(), "at_day"),
        (3, TruncateTransform(100), "amount_trunc"),
        (4, BucketTransform(3), "who_bucket"),
        (4, IdentityTransform(), "who"),
        (5, IdentityTransform(), "score"),
        (6, TruncateTransform(1), "text_trunc"),
    )
    table = catalog.create_table("ns.t", schema, partition_spec=spec(*fields))
    rng = random.Random(7)

    def pick(*values: Any) -> list[Any]:
        return [rng.choice([None, *values]) for _ in range(60)]

    for _ in range(2):
        table.append(
            pa.table(
                {
                    "day": pa.array(pick(dt.date(1969, 12, 31), dt.date(2024, 2, 29)), pa.date32()),
                    "at": pa.array(pick(dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC)), pa.timestamp("us", "UTC")),
                    "amount": pa.array(pick(Decimal("1.05"), Decimal("-0.01")), pa.decimal128(9, 2)),
                    "who": pa.array(pick(uuid.UUID(int=9).bytes, uuid.UUID(int=2**127).bytes), pa.uuid()),
                    "score": pa.array(pick(0.0, -0.0, math.nan, 1.5), pa.float64()),
                    "text": pa.array(pick("ü1", "ü2", "a"), pa.string()),
                }
            )
        )
    rows = computed(table)
    check_counts(table, rows)
    assert len(rows) > 60
    assert sum(r["total_record_count"] for r in rows) == 120 == table.scan().to_arrow().num_rows
    at = [r["partition"]["at_day"] for r in rows if r["partition"]["at_day"] is not None]
    assert set(at) == {dt.date(2020, 1, 1)}
    days = [r["partition"]["day"] for r in rows]
    assert days == sorted(days, key=lambda d: (d is not None, d))


@pytest.mark.skipif(not (CORPUS / "MANIFEST.json").exists(), reason="no corpus of real tables: set ICECORE_CORPUS")
def test_md5_a_file_without_ids_and_with_a_wrong_size_in_metadata() -> None:
    folder = CORPUS / "duckdb-iceberg" / "table_partition_statistics_bad_size" / "metadata"
    schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "region", StringType())))
    by_region = spec((2, IdentityTransform(), "region"), spec_id=1)
    metadata = icecore.TableMetadata(2, str(uuid.uuid4()), "/t", 0, 2, (schema,), 0, (by_region,), 1)
    file = PartitionStatisticsFile(1002, str(folder / "partition-stats-bad-size.parquet"), -5)
    (row,) = read_partition_stats(file, metadata, Storage()).to_pylist()
    assert row["partition"] == {"region": "oops"}
    assert (row["spec_id"], row["data_record_count"], row["data_file_count"]) == (1, 1, 1)
    assert (row["total_data_file_size_in_bytes"], row["dv_count"], row["total_record_count"]) == (11, None, None)


@pytest.mark.skipif(not (CORPUS / "MANIFEST.json").exists(), reason="no corpus of real tables: set ICECORE_CORPUS")
@pytest.mark.parametrize(
    "name",
    [
        "iceberg-cxx/hour_timestamptz_partitioning",
        "iceberg-cxx/partition_evolution",
        "iceberg-cxx/bucket_partitioning",
        "iceberg-cxx/partitioning_with_null_value",
    ],
)
def test_md5_tables_of_other_writers(catalog: icecore.Catalog, name: str) -> None:
    from icecore.projections.inspect.partition_statistics import compute_partition_stats

    entry = next(f for f in json.loads((CORPUS / "MANIFEST.json").read_text()) if f["id"] == name)
    table = catalog.register_table(
        "ns.other",
        str(CORPUS / entry["metadata_location_relative"]),
        location_mapping={p: str(CORPUS / entry["path"]) for p in entry["path_prefix_in_metadata"] or []},
    )
    snapshot = table.current_snapshot()
    assert snapshot is not None
    rows = compute_partition_stats(table._planner, table.state, snapshot).to_pylist()
    check_counts(table, [r | {"dv_count": r.get("dv_count", 0)} for r in rows])
    totals = [r["total_record_count"] for r in rows]
    if None not in totals:
        assert sum(totals) == entry["expected"]["rows"]
