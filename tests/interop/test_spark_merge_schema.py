"""DataFrames that bring columns of their own: `append(df, merge_schema=True)`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402

SCHEMA = pa.schema(
    [("id", pa.int32()), ("name", pa.string()), ("st", pa.struct([("x", pa.int32())])), ("u", pa.uuid())]
)


def test_columns_of_a_frame_are_taken_in(spark: Any, catalog: icecore.Catalog) -> None:
    """By the session's rule for case, in one commit; what Spark casts keeps its type."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append([{"id": 1, "name": "a"}])
    rows = (
        "CAST(2 AS TINYINT) AS ID, 'b' AS Name, named_struct('X', 9000000000L, 'y', 1.5D) AS ST, date'2024-01-01' AS n"
    )
    uuid = "'00000000-0000-0000-0000-00000000000A' AS u, cast(NULL AS STRING) AS name2"
    table.append(spark.sql(f"SELECT {rows}, {uuid}"), merge_schema=True)
    assert [(f.name, str(f.field_type)) for f in table.schema().fields] == [
        ("id", "int"),
        ("name", "string"),
        ("st", "struct<5: x: long, 6: y: double>"),
        ("u", "uuid"),
        ("n", "date"),
        ("name2", "string"),
    ]
    assert len(table.snapshots()) == 2
    assert table.scan("name = 'b' AND n = DATE '2024-01-01' AND st.y = 1.5").to_arrow()["st"].to_pylist() == [
        {"x": 9000000000, "y": 1.5}
    ]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        table.append(spark.sql("SELECT 3 AS id, 'c' AS Name"), merge_schema=True)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    found = table.scan("id = 3", selected_fields=("name", "Name")).to_arrow().to_pylist()
    assert found == [{"name": None, "Name": "c"}]
    with pytest.raises(ValidationError, match="two new columns are called 'NEW'"):
        table.append(spark.range(1).toDF("new").selectExpr("*", "1 AS NEW"), merge_schema=True)
