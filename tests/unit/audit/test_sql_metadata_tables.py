"""Iceberg's metadata tables over a catalog, in SQL: the same rows as `table.inspect` has, of every table."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot
from core_tables import local

import icecore
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS, ICEBERG_TABLES
from icecore.projections.audit.needed_columns import names_any

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "day": pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 1), dt.date(2024, 2, 1)]),
        "key": pa.array([uuid.UUID(int=i).bytes for i in range(3)], pa.uuid()),
        "raw": pa.array([b"\xff", b"\x00", None]),
        "at": pa.array([dt.datetime(2024, 1, 1, 12)] * 3, pa.timestamp("us", "UTC")),
    }
)
OF_METHODS = ["history", "metadata_log_entries", "snapshots", "refs", "manifests", "all_manifests", "partitions"]
OF_METHODS += ["files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files"]
OF_METHODS += ["entries", "all_entries", "position_deletes"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A warehouse with the tables ns.a of two specs, with deleted rows, and ns.b, which was ns.old until position 9."""
    with icecore.open(tmp_path_factory.mktemp("lake")) as catalog:
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": "merge-on-read"}
        table = catalog.create_table("ns.a", ROWS.schema, partition_spec=["month(day)"], properties=properties)
        table.append(ROWS)
        with table.update_spec() as spec:
            spec.add_identity("id")
        table.append(ROWS.slice(0, 1))
        table.delete("id = 2 AND day < '2024-01-02'")
        other = catalog.create_table("ns.old", pa.schema([("x", pa.string())]))
        other.append([{"x": "y"}])
        catalog.rename_table("ns.old", "ns.b")
        yield catalog


@pytest.mark.parametrize("name", OF_METHODS)
def test_rows_are_those_of_inspect(lake: icecore.Catalog, name: str) -> None:
    """As many rows of each table, and the same values in the columns that have one type in all tables."""
    found = lake.sql(f"SELECT * FROM {name}")
    for identifier in ("ns.a", "ns.b"):
        table = lake.load_table(identifier)
        inspected = getattr(table.inspect, name)()
        ours = found.filter(pa.compute.equal(found["name_now"], identifier))
        assert ours["table_uuid"].unique().to_pylist() in ([], [table.metadata.table_uuid])
        shared = [
            n
            for n in inspected.column_names
            if n in ours.column_names
            and n not in ("name", "content", "file_format", "type", "summary")
            and not pa.types.is_nested(inspected.schema.field(n).type)
            and not pa.types.is_timestamp(inspected.schema.field(n).type)
            and ours.schema.field(n).type == inspected.schema.field(n).type
        ]
        assert shared, name
        assert ours.select(shared).to_pylist() == inspected.select(shared).to_pylist(), name


def test_partitions_have_one_path_in_all_tables(lake: icecore.Catalog) -> None:
    """So files, entries, partitions and deletes can be joined by it."""
    paths = lake.sql("SELECT DISTINCT spec_id, partition FROM files WHERE name = 'a' ORDER BY ALL").to_pylist()
    assert paths[0] == {"spec_id": 0, "partition": "day_month=2024-01"}
    assert paths[-1] == {"spec_id": 1, "partition": "day_month=2024-01/id=1"}
    for name in ("partitions", "data_files"):
        query = f"SELECT DISTINCT spec_id, partition FROM {name} WHERE name = 'a' ORDER BY ALL"
        assert lake.sql(query).to_pylist() == paths, name
    (deleted,) = lake.sql("SELECT partition, partition_values FROM position_deletes").to_pylist()
    assert deleted == {"partition": "day_month=2024-01", "partition_values": [("day_month", "2024-01")]}
    query = "SELECT DISTINCT data_file.partition AS p FROM entries WHERE name = 'b'"
    assert lake.sql(query).to_pylist() == [{"p": ""}]


def test_metrics_are_by_name_and_their_bounds_text(lake: icecore.Catalog) -> None:
    query = """
        SELECT readable_metrics['day'].lower_bound AS day, readable_metrics['key'].upper_bound AS key,
               readable_metrics['raw'].lower_bound AS raw, readable_metrics['at'].upper_bound AS at,
               readable_metrics['id'].value_count AS n, readable_metrics['x'].lower_bound AS x
        FROM {} WHERE record_count = 2 OR name = 'b' ORDER BY name"""
    first, second = lake.sql(query.format("files")).to_pylist()
    assert first["day"] == "2024-01-01" and first["key"] == str(uuid.UUID(int=1)) and first["raw"] == "00"
    assert first["at"].startswith("2024-01-01 12:00:00") and first["n"] == 2 and first["x"] is None
    assert second["x"] == "y" and second["n"] is None
    assert lake.sql(query.format("all_data_files")).num_rows == 2


def test_what_the_query_does_not_name_is_not_made(lake: icecore.Catalog) -> None:
    """The columns that take long are the same rows in the same order, whether they are asked for or not."""
    few = lake.sql("SELECT file_path, partition, sequence_number, content, file_format FROM files")
    many = lake.sql("SELECT file_path, partition, sequence_number, content, file_format, value_counts FROM files")
    assert few.to_pylist() == many.drop_columns(["value_counts"]).to_pylist()


@pytest.mark.parametrize(
    ("query", "needed"),
    [
        ("SELECT count(*) FROM files", False),
        ("SELECT f.file_path FROM files f JOIN refs USING (name)", False),
        ("SELECT * FROM files", True),
        ("FROM files", True),
        ("SELECT files FROM files", True),
        ("SELECT f FROM files AS f", True),
        ("SELECT f.* FROM files AS f", True),
        ("SELECT COLUMNS('.*metrics') FROM files", True),
        ("SELECT READABLE_METRICS FROM files", True),
        ("SELECT count(DISTINCT f.readable_metrics) FROM files f", True),
        ("SELECT x FROM (SELECT readable_metrics AS x FROM files)", True),
        ("SUMMARIZE files", True),
        ("SELECT name FROM files NATURAL JOIN data_files", True),
        ("SELECT a FROM files AS f (a, b)", True),
        ("SELECT * EXCLUDE (readable_metrics) FROM files", True),
        ("PIVOT files ON name USING count(*)", True),
    ],
)
def test_columns_that_take_long_are_made_where_a_query_may_need_them(query: str, needed: bool) -> None:
    assert names_any(sqlglot.parse_one(query, dialect="duckdb"), ["readable_metrics"]) == needed


def test_the_past_can_be_asked(lake: icecore.Catalog) -> None:
    """Tables have the names and files of then, and tell their names of now."""
    position = lake.sql("SELECT max(position) AS p FROM log WHERE name = 'ns.old'").to_pylist()[0]["p"]
    past = lake.at(position)
    assert past.sql("SELECT name, name_now FROM tables ORDER BY ALL").to_pylist() == [
        {"name": "a", "name_now": "ns.a"},
        {"name": "old", "name_now": "ns.b"},
    ]
    assert past.sql("SELECT max(position) AS p FROM log").to_pylist() == [{"p": position}]
    query = "SELECT count(*) AS n FROM files WHERE name = 'old'"
    assert past.sql(query).to_pylist() == [{"n": 1}] and lake.sql(query).to_pylist() == [{"n": 0}]
    assert lake.at(3).sql("SELECT count(*) AS n FROM all_files").to_pylist() == [{"n": 2}]
    assert lake.at(0).sql("SELECT * FROM namespaces, views").num_rows == 0
    assert lake.at(1).sql("SELECT name FROM namespaces").to_pylist() == [{"name": "ns"}]


@pytest.mark.parametrize("column", ["files.readable_metrics", "entries.data_file", "partitions.partition"])
def test_entries_that_make_no_sense_are_a_problem(tmp_path: Path, column: str) -> None:
    """Those of a partition spec that the table does not have; the other tables are answered."""
    with icecore.open(tmp_path / "theirs") as theirs, icecore.open(tmp_path / "ours") as ours:
        for catalog in (theirs, ours):
            catalog.create_namespace("ns")
        table = theirs.create_table("ns.bad", ROWS.schema, partition_spec=["day"])
        table.append(ROWS)
        ours.create_table("ns.good", ROWS.schema).append(ROWS)
        metadata = json.loads(local(table.metadata_location).read_bytes())
        metadata["partition-specs"][0]["spec-id"] = metadata["default-spec-id"] = 5
        (tmp_path / "v9.metadata.json").write_text(json.dumps(metadata))
        ours.register_table("ns.bad", str(tmp_path / "v9.metadata.json"))
        name = column.partition(".")[0]
        query = f"SELECT {name}.name, {column} IS NOT NULL AS x, p.name AS bad, kind FROM {name}, problems AS p"
        found = ours.sql(query).to_pylist()
    assert [(r["name"], r["x"], r["bad"]) for r in found] == [("good", True, "bad")]
    assert found[0]["kind"] in ("StorageError", "ValidationError")


def test_each_audit_table_tells_its_tables(lake: icecore.Catalog) -> None:
    """By their names then and now, and by their UUIDs, for each row of a table."""
    of_tables = AUDIT_SCHEMAS.keys() - {"log", "log_health", "namespaces", "views", "warehouse"}
    assert of_tables >= ICEBERG_TABLES.keys()
    for name in of_tables:
        assert AUDIT_SCHEMAS[name].names[:4] == ["namespace", "name", "table_uuid", "name_now"], name


def test_no_rows_of_a_table_partitioned_by_uuids(catalog: icecore.Catalog) -> None:
    """Arrow makes no column of UUIDs inside of a struct out of nothing."""
    schema = pa.schema([("id", pa.int64()), ("u", pa.uuid())])
    table = catalog.create_table("ns.u", schema, partition_spec=["u"])
    for rows in (0, 1):
        counts = "SELECT (SELECT count(*) FROM position_deletes) AS d, (SELECT count(*) FROM partitions) AS p"
        assert catalog.sql(counts).to_pylist() == [{"d": 0, "p": rows}]
        table.append([{"id": 1, "u": uuid.UUID(int=7)}])
