"""`df.write.format("icecore")`: files by Spark's tasks, one commit at the end."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.spark_source.batch_writer import TableWriter  # noqa: E402
from icecore.engine.spark_source.source_options import WRITING, SourceOptions  # noqa: E402
from icecore.engine.spark_source.task_files import FilesMessage  # noqa: E402

COLUMNS = [("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())]


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.t", pa.schema(COLUMNS), partition_spec=["day", "bucket(2, id)"])


def numbers(spark: Any, start: int, end: int, day: str = "2024-01-01") -> Any:
    return spark.range(start, end).selectExpr("id", "concat('n', id) AS name", f"DATE '{day}' AS day")


def write(df: Any, warehouse: Path, mode: str = "append", **options: Any) -> None:
    given = {key.replace("_", "-"): str(value) for key, value in options.items()}
    df.write.format("icecore").mode(mode).option("warehouse", str(warehouse)).options(**given).save("ns.t")


def ids(table: icecore.Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def data_files(table: icecore.Table) -> set[str]:
    folder = Path(table.location().removeprefix("file://")) / "data"
    return {str(p) for p in folder.rglob("*.parquet")}


def planned(table: icecore.Table) -> set[str]:
    return {t.file.file_path.removeprefix("file://") for t in table.refresh().scan().plan_files()}


def test_an_append_is_one_commit(spark: Any, warehouse: Path, catalog: icecore.Catalog, table: icecore.Table) -> None:
    """Unsorted rows of several partitions, by hidden partitioning, with what the log and the summary are told."""
    rows = numbers(spark, 0, 50).unionAll(numbers(spark, 50, 60, "2024-01-02")).repartition(3)
    told = {"message": "load", "author": "ann", "snapshot_properties": '{"Run": "7"}', "snapshot-property.step": "2"}
    write(rows, warehouse, **told)
    assert ids(table) == list(range(60))
    assert data_files(table) == planned(table)
    assert {t.file.partition for t in table.scan().plan_files()} == {(d, b) for d in (19723, 19724) for b in (0, 1)}
    assert len(table.snapshots()) == 1
    summary = table.snapshots()[0].summary or {}
    assert (summary["Run"], summary["step"]) == ("7", "2")
    assert catalog.log("ns.t").to_pylist()[-1]["message"] == "load"
    assert catalog.log("ns.t").to_pylist()[-1]["actor"] == "ann"


def test_overwrites(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    """Of all, of what a filter selects, and of the partitions that the rows have."""
    write(numbers(spark, 0, 10), warehouse)
    write(numbers(spark, 10, 20, "2024-01-02"), warehouse)
    write(numbers(spark, 20, 22, "2024-01-02").where("id = 20"), warehouse, "overwrite", overwrite_mode="dynamic")
    gone = _bucket_of_20(table)
    kept = [i for i in range(10, 20) if i not in gone]
    assert ids(table) == sorted([*range(10), *kept, 20])
    write(numbers(spark, 30, 31), warehouse, "overwrite", overwrite_filter="day = DATE '2024-01-01'")
    assert ids(table) == sorted([*kept, 20, 30])
    write(numbers(spark, 40, 41), warehouse, "overwrite")
    assert ids(table) == [40]
    assert [s.operation for s in table.snapshots()] == ["append", "append", "overwrite", "overwrite", "overwrite"]


def _bucket_of_20(table: icecore.Table) -> list[int]:
    first = table.refresh().snapshots()[1].snapshot_id
    of = table.scan("id >= 10 AND bucket(2, id) = 0", snapshot_id=first).to_arrow()["id"].to_pylist()
    twenty = table.scan("id = 20 AND bucket(2, id) = 0").count()
    return of if twenty else [i for i in range(10, 20) if i not in of]


def test_a_branch(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    write(numbers(spark, 0, 1), warehouse)
    write(numbers(spark, 1, 2), warehouse, branch="work")
    assert ids(table) == [0]
    assert table.scan(ref="work").count() == 2


def test_names_and_types_are_made_to_fit(spark: Any, catalog: icecore.Catalog, warehouse: Path) -> None:
    """As `append` makes them, in a zone with gaps and ambiguous hours too."""
    columns = [
        ("Id", pa.int32()),
        ("u", pa.uuid()),
        ("x", pa.float32()),
        ("y", pa.float64()),
        ("tz", pa.timestamp("us", "UTC")),
        ("ts", pa.timestamp("us")),
        ("ns", pa.timestamp("ns", "UTC")),
        ("t", pa.time64("us")),
        ("st", pa.struct([("A", pa.timestamp("us", "UTC")), ("b", pa.float64())])),
        ("l", pa.list_(pa.timestamp("us"))),
        ("m", pa.map_(pa.string(), pa.float32())),
        ("fx", pa.binary(2)),
        ("left_out", pa.string()),
    ]
    mine = catalog.create_table("ns.mine", pa.schema(columns), format_version=3)
    theirs = catalog.create_table("ns.t", pa.schema(columns), format_version=3)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = spark.sql(
            """SELECT id, uuid AS U, 0.1D AS x, CAST(id / 3 AS DECIMAL(9, 4)) AS y, local AS tz,
            CAST(local AS TIMESTAMP) AS ts, local AS ns, 3600000000L + id AS t, named_struct('a', local, 'b', 1) AS st,
            array(DATE '2024-03-31', NULL) AS l, map('k', 7) AS m, X'0001' AS fx
            FROM (SELECT id, '00000000-0000-0000-0000-00000000000a' AS uuid,
            TIMESTAMP_NTZ '2024-03-31 00:00:00' + make_dt_interval(0, 0, id * 10) AS local FROM range(30)
            UNION ALL SELECT 100 + id, NULL,
            TIMESTAMP_NTZ '2024-10-27 00:00:00' + make_dt_interval(0, 0, id * 10) FROM range(30)
            UNION ALL SELECT 200, NULL, NULL)"""
        )
        mine.append(rows)
        write(rows, warehouse)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    wanted, found = (t.refresh().scan().to_arrow().sort_by("Id") for t in (mine, theirs))
    assert found.num_rows == 61
    for name in wanted.column_names:
        assert found[name].to_pylist() == wanted[name].to_pylist(), name


def test_what_does_not_fit_is_named_before_tasks_start(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    for rows, options, message in (
        ("1L AS id, 2 AS nope", {}, "no column 'nope'"),
        ("DATE '2024-01-01' AS id", {}, "column 'id': the table has long"),
        ("1L AS id", {"overwrite_mode": "static"}, "need mode"),
        ("1L AS id", {"what": "1"}, "there is no option 'what'"),
    ):
        with pytest.raises(Exception, match=message):
            write(spark.sql(f"SELECT {rows}"), warehouse, **options)
    assert data_files(table) == set()


def test_what_fails_leaves_nothing(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    """Neither rows nor files. A task beside it that Spark lets end after the job failed would leave orphans."""
    rows = numbers(spark, 0, 20).repartition(1).selectExpr("IF(id = 7, raise_error('seven'), id) AS id", "name", "day")
    with pytest.raises(Exception, match="seven"):
        write(rows, warehouse)
    assert table.refresh().current_snapshot() is None
    assert data_files(table) == set()


def test_the_same_key_writes_once(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    for _ in range(2):
        write(numbers(spark, 0, 5), warehouse, idempotency_key="first load")
    assert ids(table) == [0, 1, 2, 3, 4]
    assert data_files(table) == planned(table)


def test_who_gives_up_deletes_only_what_is_not_committed(
    spark: Any, warehouse: Path, catalog: icecore.Catalog, table: icecore.Table
) -> None:
    """Spark aborts too where it did not learn that the commit was made; a commit after that adds nothing."""
    struct = spark.sql("SELECT 1L AS id").schema
    table.append([{"id": 1}])
    (first,) = (t.file for t in table.scan().plan_files())
    options = SourceOptions.of({"warehouse": str(warehouse), "path": "ns.t"}, WRITING)

    def written(writer: TableWriter) -> list[Any]:
        copy = Path(first.file_path.removeprefix("file://")).with_name(f"{uuid.uuid4()}.parquet")
        copy.write_bytes(Path(first.file_path.removeprefix("file://")).read_bytes())
        return [FilesMessage((evolve(first, file_path=str(copy)),), None), None]

    made = TableWriter(options, struct, False)
    messages = written(made)
    made.commit(messages)
    made.commit(messages)
    made.abort(messages)
    assert ids(table) == [1, 1]
    given_up = TableWriter(options, struct, False)
    messages = written(given_up)
    given_up.abort(messages)
    assert data_files(table) == planned(table)
    with pytest.raises(icecore.IcecoreError, match="given up"):
        given_up.commit(messages)
    assert ids(table) == [1, 1]
    assert not catalog.verify().problems
