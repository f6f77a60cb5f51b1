"""Options of a table by its name in a catalog: those of `format("icecore")` act, others are errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

IDS = pa.schema([("id", pa.int64())])
CHOSEN = "AS OF chooses what is read"


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A table `t` of three commits, of which a branch and a tag have the first."""
    folder: Path = tmp_path_factory.mktemp("options") / "lake"
    with icecore.open(folder, actor="test") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", IDS)
        table.append([{"id": 1}])
        first = table.snapshots()[-1].snapshot_id
        table.manage_snapshots().create_branch(first, "branch").create_tag(first, "tag").commit()
        table.append([{"id": 2}])
        table.append([{"id": 3}])
        catalog.create_view("ns.v", "SELECT id FROM ns.t")
        icecore.spark.catalog(spark, catalog)
        yield catalog


@pytest.fixture
def changed(lake: icecore.Catalog) -> Iterator[icecore.Table]:
    """A table of ids 1 and 2, with a branch `b` of the same."""
    made = lake.create_table("ns.changed", IDS, format_version=3)
    made.append([{"id": 1}, {"id": 2}])
    made.manage_snapshots().create_branch(made.snapshots()[-1].snapshot_id, "b").commit()
    yield made
    lake.drop_table("ns.changed")


def named(spark: Any, options: dict[str, Any], name: str = "lake.ns.t") -> list[int]:
    return sorted(row.id for row in spark.read.options(**options).table(name).collect())


def formatted(spark: Any, lake: icecore.Catalog, options: dict[str, Any]) -> list[int]:
    reader = spark.read.format("icecore").option("warehouse", str(lake.path.absolute())).options(**options)
    return sorted(row.id for row in reader.load("ns.t").collect())


def test_options_are_those_of_the_format(spark: Any, lake: icecore.Catalog) -> None:
    first, second, _ = (s.snapshot_id for s in lake.load_table("ns.t").snapshots())
    given: list[dict[str, Any]] = [
        {"snapshot-id": second},
        {"ref": "branch"},
        {"REF": "tag"},
        {"as-of": lake.load_table("ns.t").metadata.find_snapshot(second).timestamp_ms},
        {"filter": "id >= 2"},
        {"start-snapshot-id": first},
        {"start-snapshot-id": first, "end-snapshot-id": second, "filter": "id > 1"},
        {"position": lake.position - 2},
    ]
    assert [named(spark, options) for options in given] == [formatted(spark, lake, options) for options in given]
    assert named(spark, {"versionAsOf": str(second), "filter": "id > 1"}) == [2]
    assert named(spark, {"versionAsOf": "tag"}) == [1]
    query = f"SELECT count(*), max(id) FROM lake.ns.t WITH ('snapshot-id' = '{second}')"
    assert spark.sql(query).collect() == [(2, 2)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"snapshot-id": 5}, "there is no snapshot 5"),
        ({"ref": "none"}, "none"),
        ({"branch": "branch"}, "there is no option 'branch' here; there are: as-of, end-snapshot-id, filter"),
        ({"as-of-timestamp": 5}, "there is no option 'as-of-timestamp'"),
        ({"fliter": "id = 1"}, "there is no option 'fliter'"),
        ({"columns": "id"}, "there is no option 'columns'"),
        ({"filter": "no = 1"}, "'no'"),
        ({"snapshot-id": 5, "ref": "tag"}, "a read takes one of"),
        ({"versionAsOf": "tag", "ref": "tag"}, f"{CHOSEN}, so there can't be the option 'ref'"),
        ({"versionAsOf": "tag", "position": "1"}, CHOSEN),
    ],
)
def test_others_are_refused(spark: Any, lake: icecore.Catalog, options: dict[str, Any], text: str) -> None:
    frame = spark.read.options(**options).table("lake.ns.t")
    with pytest.raises(Exception, match=text):
        frame.collect()
    with pytest.raises(Exception, match=text):
        frame.count()


def test_as_of_and_options_collide_in_sql(spark: Any, lake: icecore.Catalog) -> None:
    with pytest.raises(Exception, match=CHOSEN):
        spark.sql("SELECT * FROM lake.ns.t VERSION AS OF 'tag' WITH ('as-of' = '5')").collect()
    for name in ("lake.ns.v", "lake.ns.t.snapshots"):
        with pytest.raises(Exception, match="is no table: read by its name it has no option 'ref'"):
            spark.sql(f"SELECT * FROM {name} WITH ('ref' = 'tag')").collect()


def test_reads_of_one_query_and_what_is_cached_keep_their_own(spark: Any, lake: icecore.Catalog) -> None:
    query = "SELECT a.id, b.id FROM lake.ns.t WITH ('filter' = 'id = 3') a JOIN lake.ns.t WITH ('ref' = 'tag') b"
    assert spark.sql(query).collect() == [(3, 1)]
    assert spark.sql("SELECT id FROM lake.ns.t WITH ('ref' = 'tag') UNION ALL SELECT id FROM lake.ns.t").count() == 4
    cached = spark.read.option("ref", "tag").table("lake.ns.t").cache()
    try:
        assert (cached.count(), named(spark, {})) == (1, [1, 2, 3])
        scans = [f._jdf.queryExecution().optimizedPlan() for f in (cached, spark.table("lake.ns.t"))]
        assert not scans[0].sameResult(scans[1])
    finally:
        cached.unpersist()


def test_a_snapshot_with_other_columns_is_refused(spark: Any, lake: icecore.Catalog) -> None:
    table = lake.create_table("ns.grown", IDS)
    table.append([{"id": 1}])
    first = table.snapshots()[-1].snapshot_id
    table.update_schema().add_column("more", "int").commit()
    with pytest.raises(Exception, match="by 'snapshot-id' the table has the columns struct<id:bigint>, by its name"):
        named(spark, {"snapshot-id": first}, "lake.ns.grown")
    assert spark.sql(f"SELECT * FROM lake.ns.grown VERSION AS OF {first}").collect() == [(1,)]


def test_changes_take_the_options_of_writes(spark: Any, changed: icecore.Table) -> None:
    def ids(ref: str) -> list[int]:
        return named(spark, {"ref": ref}, "lake.ns.changed")

    spark.sql("UPDATE lake.ns.changed WITH ('branch' = 'b', 'message' = 'ours') SET id = 5 WHERE id = 1")
    spark.sql("DELETE FROM lake.ns.changed WITH ('branch' = 'b') WHERE id = 2")
    assert (ids("main"), ids("b")) == ([1, 2], [5])
    assert "ours" in [commit["message"] for commit in changed.refresh().inspect.commits().to_pylist()]
    for change in ("UPDATE {} SET id = 5", "DELETE FROM {} WHERE id = 1", "DELETE FROM {}"):
        with pytest.raises(Exception, match="there is no option 'ref' here; there are: author, branch"):
            spark.sql(change.format("lake.ns.changed WITH ('ref' = 'b')"))
    assert (ids("main"), ids("b")) == ([1, 2], [5])
    spark.sql("DELETE FROM lake.ns.changed WITH ('branch' = 'b')")
    assert (ids("main"), ids("b")) == ([1, 2], [])


def test_a_catalog_of_the_past_has_no_other_position(spark: Any, lake: icecore.Catalog) -> None:
    icecore.spark.catalog(spark, lake.at(lake.position), name="past")
    assert named(spark, {"ref": "tag"}, "past.ns.t") == [1]
    with pytest.raises(Exception, match="a catalog of the past is at position"):
        named(spark, {"position": 3}, "past.ns.t")
