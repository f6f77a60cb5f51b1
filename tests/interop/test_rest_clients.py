"""What the guide has users of other engines type, typed: each engine reads what the other wrote.

The engines are in an environment of their own, whose Python `ICECORE_CLIENTS` names; `make interop` makes it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from core_tables import ids_of, make_table, rows
from rest_client import served

import icecore

GUIDE = Path(__file__).parents[2] / "docs" / "rest-catalog.md"
DUCKDB = """
import glob, importlib, json, sys, duckdb
con = duckdb.connect()
for name in ("httpfs", "avro", "iceberg"):
    folder = importlib.import_module(f"duckdb_extension_{name}").__path__[0]
    con.execute(f"LOAD '{glob.glob(f'{folder}/extensions/**/*.duckdb_extension', recursive=True)[0]}'")
con.execute(sys.argv[1])
sql = lambda text: [list(row) for row in con.execute(text).fetchall()]
"""
SPARK = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder.config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
builder.config("spark.jars.packages", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0")
for setting in sys.argv[1].split("`, `"):
    builder.config(*setting.split("=", 1))
session = builder.getOrCreate()
sql = lambda text: [list(row) for row in session.sql(text).collect()]
"""
PYICEBERG = """
import json, sys, daft, polars as pl, pyarrow as pa
from pyiceberg.catalog import load_catalog
catalog = eval(sys.argv[1])
"""
BOTH = """
sql("INSERT INTO lake.ns.t VALUES (3, 'three')")
sql("CREATE TABLE lake.ns.made AS SELECT id + 1 AS n FROM lake.ns.t")
sql("DELETE FROM lake.ns.t WHERE id = 1")
print(json.dumps([sql(f"SELECT * FROM lake.ns.{name} ORDER BY 1") for name in ("t", "made")]))
"""

LIFE = """
sql("CREATE NAMESPACE lake.more")
sql("CREATE TABLE lake.more.a (id BIGINT, city STRING) USING iceberg PARTITIONED BY (bucket(4, id))")
sql("INSERT INTO lake.more.a VALUES (1, 'Oslo'), (2, 'Rome'), (3, 'Bern')")
first = sql("SELECT snapshot_id FROM lake.more.a.snapshots")[0][0]
sql("ALTER TABLE lake.more.a ADD COLUMN people INT AFTER id")
sql("ALTER TABLE lake.more.a RENAME COLUMN city TO town")
sql("ALTER TABLE lake.more.a ADD PARTITION FIELD truncate(1, town)")
sql("ALTER TABLE lake.more.a SET TBLPROPERTIES ('write.merge.mode'='merge-on-read', 'format-version'='2')")
sql("CREATE TABLE lake.more.news (id BIGINT, people INT, town STRING) USING iceberg")
sql("INSERT INTO lake.more.news VALUES (2, 7, 'Roma'), (4, 9, 'Paris')")
sql("MERGE INTO lake.more.a AS t USING lake.more.news AS s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
sql("UPDATE lake.more.a SET people = 5 WHERE id = 3")
sql("ALTER TABLE lake.more.a CREATE BRANCH audit")
sql("INSERT INTO lake.more.a.branch_audit VALUES (9, 1, 'Riga')")
sql("ALTER TABLE lake.more.a CREATE TAG start AS OF VERSION " + str(first))
sql("CREATE VIEW lake.more.v AS SELECT town FROM lake.more.a WHERE people > 5")
sql("ALTER TABLE lake.more.news RENAME TO more.old")
sql("CALL lake.system.rewrite_data_files(table => 'more.a', options => map('rewrite-all', 'true'))")
sql("CREATE TABLE lake.more.gone (x INT) USING iceberg")
sql("DROP TABLE lake.more.gone")
print(json.dumps([
    sql("SELECT id, people, town FROM lake.more.a ORDER BY id"),
    sql("SELECT id, city FROM lake.more.a VERSION AS OF 'start' ORDER BY id"),
    sql("SELECT count(*) FROM lake.more.a.branch_audit"),
    sql("SELECT town FROM lake.more.v ORDER BY town"),
    sorted(row[1] for row in sql("SHOW TABLES IN lake.more")),
]))
"""
FRAMES = """
table = catalog.load_table("ns.t")
rows = pl.DataFrame({"id": [3], "name": ["three"]}, schema={"id": pl.Int32, "name": pl.String})
rows.write_iceberg(table, mode="append")
rows = daft.from_arrow(pa.table({"id": pa.array([4], pa.int32()), "name": ["four"]}))
rows.write_iceberg(catalog.load_table("ns.t"), mode="append")
with catalog.load_table("ns.t").transaction() as change:
    change.delete("id = 1")
    change.append(pa.table({"id": pa.array([5], pa.int32()), "name": ["five"]}))
table = catalog.load_table("ns.t")
print(json.dumps([
    sorted(pl.scan_iceberg(table).filter(pl.col("id") > 2).collect()["name"].to_list()),
    sorted(daft.read_iceberg(table).where(daft.col("id") < 5).to_pydict()["name"]),
]))
"""


@pytest.mark.parametrize(("client", "begin"), [("DuckDB", DUCKDB), ("Spark", SPARK)], ids=["duckdb", "java"])
def test_an_engine_writes_and_reads_by_its_line_of_the_guide(tmp_path: Path, client: str, begin: str) -> None:
    with icecore.open(tmp_path / "lake", location_roots=[], unique_locations=True) as catalog:
        catalog.create_namespace("ns")
        make_table(catalog).append(rows(1, 2))
        assert said(catalog, client, begin + BOTH) == [[[2, "n2"], [3, "three"]], [[2], [3], [4]]]
        assert ids_of(catalog.load_table("ns.t")) == [2, 3]
        assert sorted(catalog.load_table("ns.made").scan().to_arrow()["n"].to_pylist()) == [2, 3, 4]
        engines = [re.split("[/ ]", row["engine"])[0] for row in catalog.log().to_pylist()]
        assert set(engines[3:]) == {client.lower()}
        check_rebuilt(catalog)


def test_spark_lives_with_a_catalog(tmp_path: Path) -> None:
    """Schema, spec, merge, update, branch, tag, view, rename, compaction, drop; all of it is made again by the log."""
    with icecore.open(tmp_path / "lake", location_roots=[], unique_locations=True) as catalog:
        assert said(catalog, "Spark", SPARK + LIFE) == [
            [[1, None, "Oslo"], [2, 7, "Roma"], [3, 5, "Bern"], [4, 9, "Paris"]],
            [[1, "Oslo"], [2, "Rome"], [3, "Bern"]],
            [[5]],
            [["Paris"], ["Roma"]],
            ["a", "old"],
        ]
        check_rebuilt(catalog)
        table = catalog.load_table("more.a")
        assert sorted(table.scan().to_arrow()["town"].to_pylist()) == ["Bern", "Oslo", "Paris", "Roma"]
        assert table.scan(ref="audit").count() == 5 and table.scan(ref="start").count() == 3


def test_frames_of_polars_and_daft_are_written_and_read(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "lake", location_roots=[], unique_locations=True) as catalog:
        catalog.create_namespace("ns")
        make_table(catalog).append(rows(1, 2))
        assert said(catalog, "PyIceberg, Polars, Daft", PYICEBERG + FRAMES) == [
            ["five", "four", "three"],
            ["four", "n2", "three"],
        ]
        assert ids_of(catalog.load_table("ns.t")) == [2, 3, 4, 5]
        check_rebuilt(catalog)


def said(catalog: icecore.Catalog, client: str, script: str) -> Any:
    """What a script printed last, in JSON, that a client's line of the guide is given to."""
    python = os.environ.get("ICECORE_CLIENTS") or pytest.skip("ICECORE_CLIENTS names no Python with other engines")
    found = re.search(rf"^\| {client} \| `(.*?)`(, and its tables)? \|$", GUIDE.read_text(), re.MULTILINE)
    assert found is not None, f"the guide has no line for {client}"
    with served(catalog) as rest:
        command = [python, "-c", script, found[1].replace("http://127.0.0.1:8181", rest.uri)]
        # Spark takes no settings of another one's.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "SPARK_", "PYSPARK_"))}
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=env)
    errors = [line for line in done.stderr.splitlines() if re.search("Error|Exception", line) and "\tat " not in line]
    assert done.returncode == 0, "\n".join(errors) or done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_rebuilt(catalog: icecore.Catalog) -> None:
    """That all is well, data by their rows too, and that metadata files that are lost come back with the same bytes."""
    assert catalog.verify(rows=True).problems == ()
    tables = [
        catalog.load_table(name) for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)
    ]
    needed = {f for table in tables for f in needed_metadata(table)}
    before = {f: f.read_bytes() for f in needed}
    for f in needed:
        f.unlink()
    catalog.rebuild()
    assert {f: f.read_bytes() for f in needed} == before
    assert catalog.verify(rows=True).problems == ()


def needed_metadata(table: icecore.Table) -> set[Path]:
    """The metadata file, the lists and the manifests of a table's snapshots."""
    lists = [s.manifest_list for s in table.metadata.snapshots]
    manifests = table.inspect.all_manifests()["path"].to_pylist()
    # Java writes `file:/a`.
    return {Path(re.sub("^file:/*", "/", location)) for location in (table.metadata_location, *lists, *manifests)}
