"""Trino writes and reads by the line that the guide has for it, beside our own engine.

It comes from Maven Central, half a gigabyte, so only `make interop` runs it, where there are Java 25 and Maven.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import frozen
from core_tables import ids_of, local, make_table, rows
from maven_jars import class_path
from rest_client import RestClient, served
from trino_peer.trino_server import FOLDER, MIN_JAVA_VERSION, Trino, java_25, trino_server

import icecore

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[2] / "docs" / "rest-catalog.md"


@frozen
class Lake:
    """A served warehouse with a namespace `ns`, and Trino as a client that calls it `lake`."""

    catalog: icecore.Catalog
    rest: RestClient
    trino: Trino

    def attach(self, name: str, **more: str) -> None:
        """A catalog of Trino's by the guide's settings and more; `__` stands for the dot and `_` for the hyphen."""
        found = re.search(r"^\| Trino \| `connector\.name=iceberg`, `(.*)` \|$", GUIDE.read_text(), re.MULTILINE)
        assert found is not None
        line = found[1].replace("http://127.0.0.1:8181", self.rest.uri)
        settings = dict(setting.split("=", 1) for setting in line.split("`, `"))
        settings |= {k.replace("__", ".").replace("_", "-"): v for k, v in more.items()}
        given = ", ".join(f"\"{k}\" = '{v}'" for k, v in settings.items())
        self.trino.sql(f"CREATE CATALOG {name} USING iceberg WITH ({given})")

    def both(self, name: str, columns: str = "id") -> list[tuple[Any, ...]]:
        """Rows of a table in `ns` by Trino, sorted; raises AssertionError where we read others."""
        of_trino = sorted(map(tuple, self.trino.sql(f"SELECT {columns} FROM lake.ns.{name}")), key=repr)
        found = self.catalog.load_table(f"ns.{name}").scan().to_arrow().select(columns.split(", "))
        assert sorted((tuple(row.values()) for row in found.to_pylist()), key=repr) == of_trino
        return of_trino


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Ends with files that verify, and that the log gives back byte for byte."""
    if "ICECORE_INTEROP" not in os.environ:
        pytest.skip("only make interop fetches Trino")
    java = java_25() or pytest.skip(f"no Java {MIN_JAVA_VERSION}")
    folder = tmp_path_factory.mktemp("trino")
    jars = class_path(FOLDER / "pom.xml", folder / "class-path")
    with (
        pytest.MonkeyPatch.context() as patch,
        icecore.open(folder / "lake", location_roots=[], unique_locations=True) as catalog,
        served(catalog) as rest,
        trino_server(java, jars, folder / "log") as trino,
    ):
        patch.setenv("ICECORE_CATALOG_ALIASES", "lake")
        made = Lake(catalog, rest, trino)
        made.attach("lake", iceberg__expire_snapshots__min_retention="0s")
        trino.sql("CREATE SCHEMA lake.ns")
        yield made
        assert catalog.verify().problems == ()
        metadata = {path: path.read_bytes() for path in folder.glob("lake/ns/*/metadata/*") if path.suffix != ".stats"}
        for path in metadata:
            path.unlink()
        catalog.rebuild()
        assert {path: path.read_bytes() for path in metadata} == metadata


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_of_trino_is_changed_and_maintained_by_it(lake: Lake, version: int) -> None:
    """From its creation over all of its statements to its end, in which the server purges its files."""
    sql, name = lake.trino.sql, f"made{version}"
    sql(
        f"CREATE TABLE lake.ns.{name} (id bigint, city varchar, price decimal(12, 3), at timestamp(6) with time zone) "
        f"WITH (format_version = {version}, partitioning = ARRAY['month(at)', 'bucket(id, 4)', 'truncate(city, 2)'])"
    )
    sql(
        f"INSERT INTO lake.ns.{name} SELECT n, 'c', n, TIMESTAMP '1969-12-31 23:59:59.999999 UTC' "
        "+ n * INTERVAL '1' DAY FROM UNNEST(sequence(0, 49)) AS s(n)"
    )
    sql(f"DELETE FROM lake.ns.{name} WHERE id % 7 = 0")
    sql(f"UPDATE lake.ns.{name} SET city = 'Oslo' WHERE id < 4")
    sql(
        f"MERGE INTO lake.ns.{name} t USING (VALUES (1, 'Rome'), (99, 'Åbo')) s(id, city) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET city = s.city WHEN NOT MATCHED THEN INSERT (id, city) VALUES (s.id, s.city)"
    )
    for change in (
        "ADD COLUMN more integer",
        "ALTER COLUMN more SET DATA TYPE bigint",
        "RENAME COLUMN price TO cost",
        "SET PROPERTIES partitioning = ARRAY['day(at)']",
    ):
        sql(f"ALTER TABLE lake.ns.{name} {change}")
    sql(f"INSERT INTO lake.ns.{name} (id, more) VALUES (100, 7)")
    expected = {n: "c" for n in range(50) if n % 7} | {1: "Rome", 2: "Oslo", 3: "Oslo", 99: "Åbo", 100: None}
    before = lake.both(name, "id, city, more")
    assert dict(row[:2] for row in before) == expected
    snapshots = {row[0] for row in sql(f'SELECT snapshot_id FROM lake.ns."{name}$snapshots"')}
    assert snapshots == {s.snapshot_id for s in lake.catalog.load_table(f"ns.{name}").snapshots()}
    sql(f"ALTER TABLE lake.ns.{name} EXECUTE optimize")
    sql(f"ALTER TABLE lake.ns.{name} EXECUTE optimize_manifests")
    sql(f"ALTER TABLE lake.ns.{name} EXECUTE expire_snapshots(retention_threshold => '0s')")
    sql(f"ALTER TABLE lake.ns.{name} EXECUTE remove_orphan_files(retention_threshold => '7d')")
    sql(f"ANALYZE lake.ns.{name}")
    assert lake.both(name, "id, city, more") == before
    assert len(lake.catalog.load_table(f"ns.{name}").snapshots()) == 1
    sql(f"ALTER TABLE lake.ns.{name} RENAME TO lake.ns.renamed{version}")
    place = local(lake.catalog.load_table(f"ns.renamed{version}").location())
    sql(f"DROP TABLE lake.ns.renamed{version}")
    assert not [path for path in place.rglob("*") if path.is_file()]


@pytest.mark.parametrize("version", ["2", "3"])
def test_both_delete_from_one_table(lake: Lake, version: str) -> None:
    """Position deletes or vectors of either are kept by the other, equality deletes of ours read by Trino."""
    name = f"shared{version}"
    modes = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
    table = make_table(lake.catalog, name, properties={"format-version": version, **modes})
    table.append(rows(*range(40)))
    table.delete("id in (5, 10)")
    lake.trino.sql(f"DELETE FROM lake.ns.{name} WHERE id IN (6, 7)")
    table.delete("id = 8")
    table.delete_keys(pa.table({"id": [9, 11]}), ["id"])
    lake.trino.sql(f"UPDATE lake.ns.{name} SET name = 'new' WHERE id = 12")
    assert len(lake.both(name, "id, name")) == 40 - 7


def test_names_the_past_and_views(lake: Lake) -> None:
    """Nested namespaces, the warehouse as it was, tables that are registered anew, and views of either."""
    sql, catalog = lake.trino.sql, lake.catalog
    more = {"iceberg__register_table_procedure__enabled": "true"}
    lake.attach("deep", iceberg__rest_catalog__nested_namespace_enabled="true", **more)
    table = make_table(catalog, "old")
    table.append(rows(1, 2))
    lake.attach("past", iceberg__rest_catalog__warehouse=f"at/{catalog.position}")
    sql('CREATE SCHEMA deep."ns.inner"')
    sql('CREATE TABLE deep."ns.inner"."odd name" AS SELECT id FROM lake.ns.old')
    assert ids_of(catalog.load_table("ns.inner.odd name")) == [1, 2]
    sql("INSERT INTO lake.ns.old VALUES (3, 'n3')")
    assert (sql("SELECT count(*) FROM past.ns.old"), sql("SELECT count(*) FROM lake.ns.old")) == ([[2]], [[3]])
    with pytest.raises(AssertionError, match="can only be read"):
        sql("INSERT INTO past.ns.old VALUES (4, 'n4')")
    sql("CREATE VIEW lake.ns.seen AS SELECT id + 1 AS n FROM lake.ns.old")
    assert sorted(catalog.load_view("ns.seen").to_arrow()["n"].to_pylist()) == [2, 3, 4]
    catalog.create_view("ns.told", representations={"trino": "SELECT id FROM ns.old"}, default_catalog="lake")
    assert sorted(sql("SELECT * FROM lake.ns.told")) == [[1], [2], [3]]
    path = local(catalog.load_table("ns.old").metadata_location)
    sql("CALL deep.system.unregister_table('ns', 'old')")
    sql(f"CALL deep.system.register_table('ns', 'again', 'file://{path.parents[1]}', '{path.name}')")
    assert len(lake.both("again")) == 3
