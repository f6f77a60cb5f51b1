"""What the guide has users of other engines type, typed: each engine reads what the other wrote.

The engines are in an environment of their own, whose Python `ICECORE_CLIENTS` names; `make interop` makes it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

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
builder.config("spark.jars.packages", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0")
for setting in sys.argv[1].split("`, `"):
    builder.config(*setting.split("=", 1))
session = builder.getOrCreate()
sql = lambda text: [list(row) for row in session.sql(text).collect()]
"""
BOTH = """
sql("INSERT INTO lake.ns.t VALUES (3, 'three')")
sql("CREATE TABLE lake.ns.made AS SELECT id + 1 AS n FROM lake.ns.t")
sql("DELETE FROM lake.ns.t WHERE id = 1")
print(json.dumps([sql(f"SELECT * FROM lake.ns.{name} ORDER BY 1") for name in ("t", "made")]))
"""


@pytest.mark.parametrize(("client", "begin"), [("DuckDB", DUCKDB), ("Spark", SPARK)], ids=["duckdb", "java"])
def test_an_engine_writes_and_reads_by_its_line_of_the_guide(tmp_path: Path, client: str, begin: str) -> None:
    python = os.environ.get("ICECORE_CLIENTS") or pytest.skip("ICECORE_CLIENTS names no Python with other engines")
    found = re.search(rf"^\| {client} \| `(.*)` \|$", GUIDE.read_text(), re.MULTILINE)
    assert found is not None, f"the guide has no line for {client}"
    with icecore.open(tmp_path / "lake", location_roots=[], unique_locations=True) as catalog:
        catalog.create_namespace("ns")
        make_table(catalog).append(rows(1, 2))
        with served(catalog) as rest:
            command = [python, "-c", begin + BOTH, found[1].replace("http://127.0.0.1:8181", rest.uri)]
            # Spark takes no settings of another one's.
            env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "SPARK_", "PYSPARK_"))}
            done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.splitlines()[-1]) == [[[2, "n2"], [3, "three"]], [[2], [3], [4]]]
        assert ids_of(catalog.load_table("ns.t")) == [2, 3]
        assert sorted(catalog.load_table("ns.made").scan().to_arrow()["n"].to_pylist()) == [2, 3, 4]
        assert catalog.verify().problems == ()
        engines = [re.split("[/ ]", row["engine"])[0] for row in catalog.log().to_pylist()]
        assert set(engines[3:]) == {client.lower()}
