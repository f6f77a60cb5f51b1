"""`_deleted` and `_partition` in Spark are what they are in Arrow."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("u", pa.uuid()), ("ns", pa.timestamp("ns")), ("t", pa.time64("us"))])


def plain(row: dict[str, Any]) -> str:
    return repr({k: plain(v) if isinstance(v, dict) else str(v) for k, v in row.items()})


def same_in_spark(spark: Any, table: icecore.Table, row_filter: str | None, *names: str) -> int:
    mine = table.scan(row_filter, selected_fields=names).to_arrow()
    frame = table.scan(row_filter, selected_fields=names).to_spark(spark)
    assert frame.columns == mine.column_names
    assert sorted(map(plain, frame.toArrow().to_pylist())) == sorted(map(plain, mine.to_pylist()))
    return int(mine.num_rows)


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_deleted_rows_and_partitions(spark: Any, catalog: icecore.Catalog, file_format: str) -> None:
    """Files with deletes of both kinds and without, of several specs, by both readers; without a partition too."""
    properties = {"write.delete.mode": "merge-on-read", "write.format.default": file_format}
    table = catalog.create_table("ns.t", SCHEMA, format_version=3, properties=properties)

    def append_rows(*ids: int) -> None:
        table.append(
            pa.table(
                {
                    "id": pa.array(ids, pa.int64()),
                    "u": pa.array([uuid.UUID(int=i % 2).bytes for i in ids], pa.binary(16)).cast(pa.uuid()),
                    "ns": pa.array([i * 1000 for i in ids], pa.timestamp("ns")),
                }
            )
        )

    append_rows(1, 2, 3)
    assert same_in_spark(spark, table, None, "id", "_partition", "_deleted") == 3
    with table.update_spec() as spec:
        spec.add_field("u", "identity").add_field("ns", "identity").add_field("id", "bucket[2]")
    append_rows(4, 5, 6)
    append_rows(7, 8)
    table.delete("id IN (2, 5)")
    table.delete_keys(pa.table({"id": [3]}), ["id"])
    assert same_in_spark(spark, table, None, "_deleted", "id") == 7
    assert same_in_spark(spark, table, "id > 2", "_partition", "id", "_deleted", "_spec_id") == 5
    assert same_in_spark(spark, table, None, "_partition") == 5
    shown = table.scan(selected_fields=("_partition",)).to_spark(spark).schema["_partition"].dataType
    assert [f.dataType.typeName() for f in shown] == ["string", "timestamp_ntz", "integer"]
