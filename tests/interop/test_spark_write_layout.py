"""Files that Spark writes: by partition, sorted, distributed, of a size. Spec: Partition Transforms, Sorting."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_tables import schema_of, spec_of  # noqa: E402
from spark_written import LONG, STRING, read_back, spark_write  # noqa: E402

from icecore.engine.data.arrow.arrow_partitions import partition_batches  # noqa: E402
from icecore.engine.data.spark_schema import spark_to_schema  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spec import single_value  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.sort import NullOrder, SortDirection, SortField, SortOrder  # noqa: E402
from icecore.engine.spec.transform import TruncateTransform, parse_transform  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    NestedField,
    UUIDType,
)


def partition_frame(spark: Any) -> tuple[Any, Schema]:
    df = spark.range(400).selectExpr(
        "id",
        "IF(id = 7, NULL, concat('name ', id % 23)) AS name",
        "timestamp_micros(id * 86400000000 * 3 - 30000000000000000) AS tz",
        "IF(id % 50 = 3, NULL, CAST(timestamp_micros(id * 3600000123 - 400000000000) AS TIMESTAMP_NTZ)) AS ts",
        "CAST(id % 40 AS DECIMAL(12, 2)) - 13.37BD AS price",
        "date_add(DATE '1969-06-01', CAST(id AS INT)) AS day",
        "CAST(id - 200 AS INT) AS i",
        "CAST(concat('k', id % 3) AS BINARY) AS b",
        "CASE WHEN id % 3 = 0 THEN 0.0D WHEN id % 3 = 1 THEN -0.0D ELSE CAST('NaN' AS DOUBLE) END AS f",
        "named_struct('region', IF(id % 5 = 0, 'é=/ü', concat('r', id % 4))) AS place",
        "lower(hex(CAST(substring(concat('0000000000000000', id % 6), -16) AS BINARY))) AS u",
    )
    schema = spark_to_schema(df.schema, format_version=3)
    fields = (NestedField(f.field_id, f.name, UUIDType() if f.name == "u" else f.field_type) for f in schema.fields)
    return df, Schema(tuple(fields))


SPECS = [
    [("tz", "month")],
    [("tz", "year"), ("name", "bucket[5]")],
    [("ts", "day")],
    [("ts", "hour"), ("i", "bucket[2]")],
    [("price", "truncate[1000]"), ("day", "year")],
    [("price", "bucket[7]"), ("b", "bucket[3]")],
    [("i", "truncate[100]"), ("name", "truncate[6]"), ("b", "truncate[1]")],
    [("place.region", "identity"), ("name", "void")],
    [("f", "identity")],
    [("u", "bucket[4]"), ("day", "month")],
    [("ts", "bucket[4]"), ("tz", "bucket[3]")],
]


@pytest.mark.parametrize("terms", SPECS, ids=lambda ts: "+".join(f"{t}({n})" for n, t in ts))
def test_each_row_is_in_a_file_of_its_partition(spark: Any, tmp_path: Path, terms: list[tuple[str, str]]) -> None:
    """PT3 to PT5: partition tuples are those of the rows, in a session that is not in UTC; files are few."""
    df, schema = partition_frame(spark)
    spec = spec_of(*((schema.find_field(n).field_id, t, f"p{i}") for i, (n, t) in enumerate(terms)))
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        files = spark_write(df, schema, tmp_path, spec)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sum(f.record_count for f in files) == 400
    types = [f.result_type(schema) for f in spec.fields]

    def key(partition: tuple[Any, ...]) -> tuple[bytes | None, ...]:
        return tuple(None if v is None else single_value.to_bytes(t, v) for t, v in zip(types, partition, strict=True))

    ids: list[int] = []
    for f in files:
        table = read_back([f], schema, spec)
        ids += table["id"].to_pylist()
        found = [key(p) for p, _ in partition_batches(table, spec, schema)]
        assert found == [key(f.partition)]
        assert f.file_path.startswith(f"{tmp_path}/{spec.partition_to_path(f.partition, schema)}/")
    assert sorted(ids) == list(range(400))
    # Each partition went to one task, so that it is in one file.
    assert max(Counter(key(f.partition) for f in files).values()) == 1


def test_rows_are_sorted_inside_of_files(spark: Any, tmp_path: Path) -> None:
    """SO1: by the order's directions, null places and transforms, uuids by their bytes; the order's id is recorded."""
    df, schema = partition_frame(spark)
    ids = {f.name: f.field_id for f in schema.fields}
    order = SortOrder(
        (
            SortField((ids["name"],), TruncateTransform(6), SortDirection.DESC, NullOrder.NULLS_LAST),
            SortField((ids["u"],), parse_transform("identity")),
            SortField((ids["ts"],), parse_transform("identity"), SortDirection.DESC, NullOrder.NULLS_FIRST),
        ),
        3,
    )
    spec = spec_of((ids["i"], "bucket[2]", "i_bucket"))
    files = spark_write(df.repartition(3), schema, tmp_path, spec, sort_order=order)
    assert len(files) == 2
    for f in files:
        assert f.sort_order_id == 3
        found = read_back([f], schema, spec).to_pylist()

        def key(r: dict[str, Any]) -> Any:
            # Descending text as negated code points, nulls last; nulls of ts first.
            text = r["name"]
            first = (1, ()) if text is None else (0, tuple(-ord(c) for c in text[:6].ljust(6, "\0")))
            ts = (0, 0) if r["ts"] is None else (1, -r["ts"].timestamp())
            return (first, r["u"].bytes, ts)

        assert found == sorted(found, key=key)


@pytest.mark.parametrize("mode", ["none", "range"])
def test_distribution_modes(spark: Any, tmp_path: Path, mode: str) -> None:
    df, schema = partition_frame(spark)
    spec = spec_of((schema.find_field("tz").field_id, "year", "y"))
    files = spark_write(df.repartition(2), schema, tmp_path, spec, properties={"write.distribution-mode": mode})
    assert sum(f.record_count for f in files) == 400
    most = max(Counter(f.partition for f in files).values())
    assert most == (2 if mode == "none" else 1)
    with pytest.raises(ValidationError, match=r"write\.distribution-mode"):
        spark_write(df, schema, tmp_path, spec, properties={"write.distribution-mode": "some"})


def test_files_end_at_the_target_size(spark: Any, tmp_path: Path) -> None:
    schema = schema_of((1, "id", LONG), (2, "noise", STRING))
    rows = spark.range(20_000).selectExpr("id", "sha2(CAST(id AS STRING), 512) AS noise").coalesce(1)
    files = spark_write(rows, schema, tmp_path, properties={"write.target-file-size-bytes": "200000"})
    assert len(files) > 2
    assert max(f.file_size_in_bytes for f in files) < 2_000_000
    assert sorted(read_back(files, schema)["id"].to_pylist()) == list(range(20_000))
