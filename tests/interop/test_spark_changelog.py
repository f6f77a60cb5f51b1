"""Changelogs read by Spark have the rows that they have in Arrow."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("u", pa.uuid()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.map_(pa.string(), pa.int64())),
        ("st", pa.struct([("a.b", pa.string()), ("l", pa.list_(pa.time64("us")))])),
    ]
)
COW, MOR = "copy-on-write", "merge-on-read"
_FLOATS = [0.0, -0.0, float("nan"), None, 1.5]


def rows(start: int, end: int, text: str = "t") -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "x": _FLOATS[i % 5],
            "u": uuid.UUID(int=i % 7),
            "at": dt.datetime(2024, 1, 1 + i % 20, tzinfo=dt.UTC),
            "tags": {"a": i % 3, "b": None} if i % 4 else None,
            "st": {"a.b": text, "l": [dt.time(i % 24), None]} if i % 6 else None,
        }
        for i in range(start, end)
    ]


def plain(row: dict[str, Any]) -> str:
    def value(v: Any) -> Any:
        if isinstance(v, uuid.UUID):
            return str(v)
        if isinstance(v, dt.time):
            return ((v.hour * 60 + v.minute) * 60 + v.second) * 10**6 + v.microsecond
        if isinstance(v, dict):
            return {k: value(x) for k, x in v.items()}
        return [value(x) for x in v] if isinstance(v, (list, tuple)) else v

    return repr({k: value(v) for k, v in row.items()})


def same_changes(spark: Any, table: icecore.Table, row_filter: str | None = None, **scan: Any) -> list[str]:
    """Compares a changelog by Spark with the engine's own, and gives its kinds of changes."""
    mine = table.incremental_changelog_scan(row_filter, **scan).to_arrow()
    frame = table.incremental_changelog_scan(row_filter, **scan).to_spark(spark)
    assert frame.columns == mine.column_names
    assert [f.dataType.typeName() for f in frame.schema][-3:] == ["string", "integer", "long"]
    assert sorted(map(plain, frame.toArrow().to_pylist())) == sorted(map(plain, mine.to_pylist()))
    return list(mine["_change_type"].to_pylist())


def same_from_the_source(spark: Any, catalog: icecore.Catalog, table: icecore.Table, changelog: Any) -> None:
    """Compares what `format("icecore")` gives with a changelog of the table whose rows are to be the same."""
    options = {"warehouse": str(catalog.path), "changelog": "true", "filter": "id < 40"}
    options |= {"compute-updates": "true", "identifier-columns": "id", "columns": "id, st", "split-size": "1"}
    frame = spark.read.format("icecore").options(**options).load("ns.t")
    wanted = changelog.to_arrow()
    assert frame.columns == wanted.column_names
    table.append(rows(60, 62))
    # One that was made earlier stays as it was.
    assert sorted(map(plain, frame.toArrow().to_pylist())) == sorted(map(plain, wanted.to_pylist()))


@pytest.mark.parametrize(("format_version", "deletes", "updates"), [(2, MOR, COW), (3, COW, MOR)])
def test_changelogs_are_equal(
    spark: Any, catalog: icecore.Catalog, format_version: int, deletes: str, updates: str
) -> None:
    """Appends, deletes and updates in both modes, deletes by key, files written again; with updates and filters."""
    table = catalog.create_table(
        "ns.t",
        SCHEMA,
        partition_spec=["bucket(2, id)"],
        format_version=format_version,
        properties={"write.delete.mode": deletes, "write.update.mode": updates, "write.merge.mode": updates},
    )
    table.append(rows(0, 40))
    since = table.snapshots()[0].snapshot_id
    table.append([*rows(40, 50), *rows(45, 48)])
    table.delete("id BETWEEN 10 AND 14")
    table.upsert(rows(20, 24, "new"), ["id"])
    table.delete_keys(pa.table({"id": [30, 47]}), ["id"])
    table.overwrite(rows(0, 5), "id < 8")
    table.rewrite_data_files()
    if format_version == 2:
        table.upgrade(3)
    table.delete("id = 33")
    found = same_changes(spark, table)
    assert set(found) == {"INSERT", "DELETE"}
    # What Spark reads is planned alike in both versions, so that each way to ask is taken in one.
    if format_version == 2:
        fields = ("st", "id", "_file", "_pos", "_row_id")
        assert same_changes(
            spark, table, "id > 12 AND x IS NOT NULL", selected_fields=fields, from_snapshot_id_exclusive=since
        )
    else:
        kinds = same_changes(
            spark, table, "id < 40", compute_updates=True, identifier_columns=["id"], selected_fields=("id", "st.l")
        )
        whole = table.incremental_changelog_scan(
            "id < 40", compute_updates=True, identifier_columns=["id"], selected_fields=("id", "st")
        )
        same_from_the_source(spark, catalog, table, whole)
        assert kinds.count("UPDATE_AFTER") == kinds.count("UPDATE_BEFORE") >= 3
        assert same_changes(spark, table, compute_updates=True, identifier_columns=[], from_snapshot_id_exclusive=since)
    head = table.snapshots()[-1].snapshot_id
    assert same_changes(spark, table, from_snapshot_id_exclusive=head) == []


def test_changes_below_what_spark_can_tell(spark: Any, catalog: icecore.Catalog) -> None:
    """Nanoseconds, which Spark cuts off, make a changed row all the same; and a name may be Spark's own."""
    schema = pa.schema([("_metadata", pa.int64()), ("ns", pa.timestamp("ns")), ("ID", pa.string()), ("id", pa.int64())])
    table = catalog.create_table("ns.t", schema, format_version=3)
    ns = pa.array([1_000_000_001, 1_000_000_002], pa.timestamp("ns"))
    ids = pa.array([1, 2], pa.int64())
    table.append(pa.table([ids, ns, ids.cast(pa.string()), ids], schema=schema))
    later = pa.array([1_000_000_003, 1_000_000_002], pa.timestamp("ns"))
    table.overwrite(pa.table([ids, later, ids.cast(pa.string()), ids], schema=schema))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        found = table.incremental_changelog_scan().to_spark(spark).where("_change_ordinal = 1").collect()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert sorted((r["_change_type"], r["id"]) for r in found if r["id"] == 1) == [("DELETE", 1), ("INSERT", 1)]
    assert len(found) == len(table.incremental_changelog_scan().to_arrow()) - 2


def test_files_of_many_commits_are_read_at_once(spark: Any, catalog: icecore.Catalog) -> None:
    """Not a relation for each; a file that came, went and came again is read for each of these."""
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=["id"])
    for i in range(4):
        table.append(rows(i, i + 1))
    table.delete("id = 2")
    catalog.revert(catalog.position)
    table.refresh().append(rows(7, 8))
    assert same_changes(spark, table).count("DELETE") == 1
    fields = ("_file", "id")
    assert len(same_changes(spark, table, "id < 5", selected_fields=fields)) == 6
    frame = table.incremental_changelog_scan().to_spark(spark)
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert len(set(re.findall(r" Relation \[id#\d+", plan))) == 3
