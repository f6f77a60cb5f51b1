"""Days of October 1582 that `java.sql.Date` and `java.sql.Timestamp` do not know, in changes by Spark SQL."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

LOST, NEXT = dt.datetime(1582, 10, 10, tzinfo=dt.UTC), dt.datetime(1582, 10, 20, tzinfo=dt.UTC)
COLUMNS = pa.schema(
    [("id", pa.int64()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC")), ("s", pa.struct([("d", pa.date32())]))]
)


def row(number: int, when: dt.datetime) -> dict[str, Any]:
    return {"id": number, "d": when.date(), "t": when, "s": {"d": when.date()}}


def test_what_subqueries_find_is_what_changes(spark: Any, tmp_path: Path) -> None:
    """The rows that they find, and the values that they give."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", COLUMNS)
        table.append([row(1, LOST), row(2, NEXT), row(3, NEXT)])
        icecore.spark.catalog(spark, catalog, name="days")
        for column in ("d", "t", "s"):
            of_first = f"(SELECT {column} FROM days.ns.t WHERE id = 1)"
            spark.sql(f"UPDATE days.ns.t SET {column} = {of_first} WHERE id = 3")
            assert table.refresh().scan("id = 3").to_arrow()[column].to_pylist() == [row(3, LOST)[column]]
        for column in ("d", "t"):
            spark.sql(
                f"DELETE FROM days.ns.t WHERE id < 3 AND {column} IN (SELECT {column} FROM days.ns.t WHERE id = 3)"
            )
            assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [2, 3]
            table.append([row(1, LOST)])
