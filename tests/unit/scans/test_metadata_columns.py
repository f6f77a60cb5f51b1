"""T4: `_deleted` and `_partition` can be selected, and mean what they mean in Iceberg's own readers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import ValidationError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])


def make(catalog: icecore.Catalog, format_version: int = 2) -> icecore.Table:
    """A table of several specs, with deletes by position and by key."""
    properties = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("ns.t", SCHEMA, format_version=format_version, properties=properties)
    table.append(rows(0, 6))
    with table.update_spec() as spec:
        spec.add_field("day", "month")
    table.append(rows(6, 10))
    with table.update_spec() as spec:
        spec.remove_field("day_month")
        spec.add_field("name", "identity", "who")
    table.append(rows(10, 12))
    table.delete("id IN (1, 9)")
    table.delete_keys(pa.table({"id": [3, 11]}), ["id"])
    return table


def rows(start: int, end: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"n{i % 2}", "day": dt.date(2024, 1 + i % 3, 1)} for i in range(start, end)]


@pytest.mark.parametrize("format_version", [2, 3])
def test_deleted_rows_come_where_they_are_asked_for(catalog: icecore.Catalog, format_version: int) -> None:
    """All rows of the planned files that satisfy the filter; scans without the column are as ever."""
    table = make(catalog, format_version)
    scan = table.scan(selected_fields=("_deleted", "id"))
    found = {r["id"]: r["_deleted"] for r in scan.to_arrow().to_pylist()}
    assert found == {i: i in (1, 3, 9, 11) for i in range(12)}
    assert scan.count() == 12
    assert table.scan().count() == table.scan().to_arrow().num_rows == 8
    some = table.scan("id > 5 AND name = 'n1'", selected_fields=("*", "_deleted"), limit=9)
    assert sorted((r["id"], r["_deleted"]) for r in some.to_arrow().to_pylist()) == [(7, False), (9, True), (11, True)]
    assert some.count() == 3
    with pytest.raises(ValidationError, match="a changelog has no '_deleted'"):
        table.incremental_changelog_scan(selected_fields=("id", "_deleted"))


@pytest.mark.parametrize("format_version", [2, 3])
def test_deleted_rows_come_whichever_columns_are_read(catalog: icecore.Catalog, format_version: int) -> None:
    """A scan with the column has as many rows for all that reads only some of its columns."""
    scan = make(catalog, format_version).scan(selected_fields=("id", "name", "_deleted"))
    frame = scan.to_polars()
    for part in (frame.select("id"), frame.filter(pl.col("name") < "z").select("id"), frame.select("name", "id")):
        assert sorted(part.collect()["id"]) == list(range(12))
    assert frame.select(pl.len()).collect().item() == 12
    assert scan.to_duckdb().sql("SELECT count(*), count(id) FROM scan").fetchall() == [(12, 12)]
    assert scan.aggregate("count(*)", "count(id)", "max(id)").values == {"count(*)": 12, "count(id)": 12, "max(id)": 11}


def test_partitions_have_the_fields_of_all_specs(catalog: icecore.Catalog) -> None:
    """Null where the file's spec lacks the field; a column of the name comes first."""
    table = make(catalog)
    found = table.scan(selected_fields=("id", "_partition", "_spec_id")).to_arrow()
    assert found["_partition"].type == pa.struct([("day_month", pa.int32()), ("who", pa.string())])
    by_id = {r["id"]: (r["_partition"], r["_spec_id"]) for r in found.to_pylist()}
    assert by_id[0] == ({"day_month": None, "who": None}, 0)
    assert by_id[8] == ({"day_month": (2024 - 1970) * 12 + 2, "who": None}, 1)
    assert by_id[10] == ({"day_month": None, "who": "n0"}, 2)
    with table.update_schema() as update:
        update.add_column("_partition", "string")
    assert table.scan("id = 8", selected_fields=("_partition",)).to_arrow().to_pylist() == [{"_partition": None}]


def test_the_partition_of_a_table_without_any(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(rows(0, 2))
    found = table.scan(selected_fields=("_partition", "id")).to_arrow().to_pylist()
    assert found == [{"_partition": {}, "id": 0}, {"_partition": {}, "id": 1}]
