"""Tables of the SQL prompt that only a log can give: commits, files, columns, properties and refs of all times."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import local, pyiceberg_catalog

import icecore
from icecore.engine.archive.log_replica import ReplayedModels
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS
from icecore.projections.history import commit_rows
from icecore.projections.verify import verify_models

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
OF_EVENTS = ["commits", "file_history", "schema_history", "spec_history", "property_history", "ref_history"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A warehouse whose table shop.sales was shop.old; shop.gone was dropped, shop.kept dropped and undropped."""
    with icecore.open(tmp_path_factory.mktemp("lake"), actor="ann") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.old", SCHEMA, properties={"owner": "ann"})
        table.append([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"}], message="first")
        with table.update_schema() as schema:
            schema.rename_column("city", "town")
            schema.add_column("size", "int")
        table.append([{"id": 3, "town": "Nice"}], author="bob")
        catalog.rename_table("shop.old", "shop.sales")
        table.refresh()
        with table.update_spec() as spec:
            spec.add_identity("town")
        table.set_properties({"owner": "bob"})
        table.remove_properties("owner")
        table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "start").commit()
        table.manage_snapshots().remove_tag("start").commit()
        table.delete("id = 3", message="third goes")
        for name in ("gone", "kept"):
            catalog.create_table(f"shop.{name}", SCHEMA).append([{"id": 9, "city": "Bern"}])
            catalog.drop_table(f"shop.{name}")
        catalog.undrop_table("shop.kept")
        yield catalog


def ask(lake: icecore.Catalog, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.sql(query).to_pylist()
    return found


def test_events_tell_the_name_then_and_now(lake: icecore.Catalog) -> None:
    query = "SELECT DISTINCT name, name_now FROM events WHERE table_uuid IS NOT NULL ORDER BY ALL"
    assert ask(lake, query) == [
        {"name": "gone", "name_now": None},
        {"name": "kept", "name_now": "shop.kept"},
        {"name": "old", "name_now": "shop.sales"},
        {"name": "sales", "name_now": "shop.sales"},
    ]
    assert ask(lake, "SELECT count(*) AS n FROM events") == [{"n": lake.position}]


@pytest.mark.parametrize("name", ["events", *OF_EVENTS])
def test_a_table_inspects_its_own_history(lake: icecore.Catalog, name: str) -> None:
    """The rows are those of SQL over the catalog; of a table as it was, those up to then."""
    table = lake.load_table("shop.sales")
    of_table = f"SELECT * FROM {name} WHERE table_uuid = '{table.metadata.table_uuid}' ORDER BY position"
    found = getattr(table.inspect, name)()
    assert found.schema == AUDIT_SCHEMAS[name]
    assert found.to_pylist() == ask(lake, of_table)
    past = lake.at(4)
    assert getattr(past.load_table("shop.old").inspect, name)().to_pylist() == past.sql(of_table).to_pylist()
    assert lake.query(f"SELECT count(*) FROM shop.sales.{name}").fetchall() == [(found.num_rows,)]


def test_commits_name_the_files_that_they_added_and_removed(lake: icecore.Catalog) -> None:
    """The counts are those of the snapshots' summaries."""
    rows = ask(lake, "SELECT * FROM commits WHERE name_now = 'shop.sales' ORDER BY position")
    assert [(r["name"], r["operation"], r["actor"], r["message"], r["branch"]) for r in rows] == [
        ("old", "append", "ann", "first", "main"),
        ("old", "append", "bob", None, "main"),
        ("sales", "delete", "ann", "third goes", "main"),
    ]
    table = lake.load_table("shop.sales")
    assert [r["snapshot_id"] for r in rows] == [s.snapshot_id for s in table.snapshots()]
    assert rows[2]["removed_file_paths"] == rows[1]["added_file_paths"] and rows[2]["added_file_paths"] == []
    for row in rows:
        summary = dict(row["summary"])
        assert row["added_data_files"] == int(summary.get("added-data-files", 0)) == len(row["added_file_paths"])
        assert row["removed_records"] == int(summary.get("deleted-records", 0))
        assert row["added_records"] == int(summary.get("added-records", 0))


def test_file_history_adds_up_to_the_files(lake: icecore.Catalog) -> None:
    query = """
        SELECT file_path FROM file_history WHERE name_now = 'shop.sales'
        GROUP BY ALL HAVING count_if(change = 'added') > count_if(change = 'removed')"""
    live = lake.load_table("shop.sales").inspect.files()["file_path"].to_pylist()
    assert [r["file_path"] for r in ask(lake, query)] == live
    query = "SELECT change, actor, record_count, partition FROM file_history WHERE name = 'sales'"
    assert ask(lake, query) == [{"change": "removed", "actor": "ann", "record_count": 1, "partition": ""}]
    assert ask(lake, "SELECT record_count FROM file_history WHERE name = 'gone'") == [{"record_count": 1}]


def test_schema_history_tells_who_changed_a_column(lake: icecore.Catalog) -> None:
    query = """
        SELECT change, field_id, column_name, column_name_before, type, type_before, schema_id
        FROM schema_history WHERE name_now = 'shop.sales' ORDER BY position, field_id"""
    assert [tuple(r.values()) for r in ask(lake, query)] == [
        ("added", 1, "id", None, "long", None, 0),
        ("added", 2, "city", None, "string", None, 0),
        ("changed", 2, "town", "city", "string", "string", 1),
        ("added", 3, "size", None, "int", None, 1),
    ]


def test_properties_specs_and_refs_have_their_histories(lake: icecore.Catalog) -> None:
    query = "SELECT change, value, value_before FROM property_history WHERE key = 'owner' ORDER BY position"
    assert [tuple(r.values()) for r in ask(lake, query)] == [
        ("added", "ann", None),
        ("changed", "bob", "ann"),
        ("removed", None, "bob"),
    ]
    query = "SELECT spec_id, spec_id_before FROM spec_history WHERE name_now = 'shop.sales' ORDER BY position"
    assert [tuple(r.values()) for r in ask(lake, query)] == [(0, None), (1, 0)]
    query = "SELECT ref, change, snapshot_id FROM ref_history WHERE name_now = 'shop.sales' ORDER BY position"
    first, second, third = (s.snapshot_id for s in lake.load_table("shop.sales").snapshots())
    assert [tuple(r.values()) for r in ask(lake, query)] == [
        ("main", "added", first),
        ("main", "changed", second),
        ("start", "added", first),
        ("start", "removed", None),
        ("main", "changed", third),
    ]


def test_dropped_tables_are_those_without_a_name(lake: icecore.Catalog) -> None:
    """As of the position that is asked."""
    (gone,) = ask(lake, "SELECT * FROM dropped_tables")
    assert (gone["namespace"], gone["name"], gone["name_now"], gone["actor"]) == ("shop", "gone", None, "ann")
    assert gone["records"] == 1 and gone["data_files"] == 1 and not gone["is_purged"]
    assert lake.at(gone["position"] - 1).sql("SELECT * FROM dropped_tables").num_rows == 0
    query = "SELECT name, name_now FROM dropped_tables ORDER BY ALL"
    before = lake.at(lake.position - 1).sql(query).to_pylist()
    assert before == [{"name": "gone", "name_now": None}, {"name": "kept", "name_now": "shop.kept"}]


@pytest.mark.parametrize("name", OF_EVENTS)
def test_the_past_is_the_rows_up_to_a_position(lake: icecore.Catalog, name: str) -> None:
    """A history as of a position is that of now without what came later; one of no table is empty.

    But for metrics, which go by the names of the columns then.
    """
    columns = "* EXCLUDE (readable_metrics)" if name == "file_history" else "*"
    for position in (0, 3, 6, lake.position):
        query = f"SELECT {columns} FROM {name} WHERE position <= {position} ORDER BY ALL"
        assert lake.at(position).sql(query).to_pylist() == ask(lake, query), position
    assert ask(lake, f"SELECT * FROM {name} WHERE name = 'other'") == []
    assert AUDIT_SCHEMAS[name].names[:5] == ["namespace", "name", "table_uuid", "name_now", "position"]


def test_files_of_commits_are_read_where_a_query_can_ask_for_them(
    lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column is the same alone as with all others."""
    every = lake.sql("SELECT * FROM commits ORDER BY table_uuid, position")
    for column in every.column_names:
        alone = lake.sql(f"SELECT {column} FROM commits ORDER BY table_uuid, position")
        assert alone[column].to_pylist() == every[column].to_pylist(), column
    monkeypatch.setattr(commit_rows, "_counted", None)
    for column in set(every.column_names) - set(commit_rows.COUNTED):
        lake.sql(f"SELECT {column} FROM commits")
    for query in ("SELECT * FROM commits", "SELECT c FROM commits AS c", "SELECT COLUMNS('added.*') FROM commits"):
        with pytest.raises(TypeError):
            lake.sql(query)


def test_another_engine_s_commits_are_told(tmp_path: Path) -> None:
    """With their files as long as their manifests are listed, and the name that they were committed under."""
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.t", SCHEMA).append([{"id": 1, "city": "Oslo"}])
        peer = pyiceberg_catalog(tmp_path / "lake")
        theirs = peer.load_table("shop.t")
        theirs.append(pa.table({"id": [2], "city": ["Rome"]}, schema=SCHEMA))
        with theirs.update_schema() as schema:
            schema.delete_column("city")
        rows = ask(catalog, "SELECT engine, added_data_files, added_file_paths FROM commits ORDER BY position")
        assert [r["added_data_files"] for r in rows] == [1, 1] and rows[1]["added_file_paths"] is None
        files = ask(catalog, "SELECT file_path, change FROM file_history ORDER BY position")
        assert [f["change"] for f in files] == ["added", "added"]
        assert {f["file_path"] for f in files} == set(
            catalog.load_table("shop.t").inspect.files()["file_path"].to_pylist()
        )
        last = ask(catalog, "SELECT change, column_name_before FROM schema_history ORDER BY position")[-1]
        assert last == {"change": "removed", "column_name_before": "city"}
        for number in (3, 4):
            theirs.append(pa.table({"id": [number]}))
        peer.close()
        told = "SELECT branch, sum(added_records) AS added, sum(removed_records) AS removed FROM commits GROUP BY ALL"
        assert ask(catalog, told) == [{"branch": "main", "added": 4, "removed": 0}], "zeros are left out of summaries"
        catalog.register_table("shop.again", str(catalog.load_table("shop.t").metadata_location))
        assert ask(catalog, told.replace("commits", "commits WHERE name = 'again'")) == [
            {"branch": "main", "added": 4, "removed": 0}
        ]


def test_a_table_whose_history_cant_be_read_is_a_problem(tmp_path: Path) -> None:
    """And the others are answered."""
    with icecore.open(tmp_path / "theirs") as theirs, icecore.open(tmp_path / "ours") as ours:
        for catalog in (theirs, ours):
            catalog.create_namespace("shop")
        table = theirs.create_table("shop.bad", SCHEMA)
        table.append([{"id": 1, "city": "Oslo"}])
        for manifest in (local(table.location()) / "metadata").glob("*.avro"):
            manifest.unlink()
        ours.register_table("shop.bad", str(table.metadata_location))
        ours.create_table("shop.good", SCHEMA).append([{"id": 1, "city": "Oslo"}])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ask(ours, "SELECT name FROM commits ORDER BY ALL") == [{"name": "bad"}, {"name": "good"}]
            assert ask(ours, "SELECT name FROM file_history WHERE name = 'good'") == [{"name": "good"}]
            found = ask(ours, "SELECT f.name, p.name AS problem FROM file_history AS f, problems AS p")
        assert found == [{"name": "good", "problem": "bad"}]


def test_log_health_tells_what_is_broken(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.t", SCHEMA)
        health = {r["aspect"]: r for r in ask(catalog, "SELECT * FROM log_health")}
        assert all(r["ok"] for r in health.values())
        assert health["hash chain"]["value"] == 2 and health["tables"]["value"] == 1
        store = catalog._warehouse.store
        with store.write():
            connection = store.connection()
            connection.execute("DROP TRIGGER event_is_append_only_update")
            connection.execute("UPDATE event SET message = 'other' WHERE position = 2")
        (broken,) = ask(catalog, "SELECT aspect, detail FROM log_health WHERE NOT ok")
        assert broken["aspect"] == "hash chain" and "position 2" in broken["detail"]


def test_log_health_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others commit between the replay and the read models that it is compared with is no fault of them."""
    with icecore.open(tmp_path / "lake") as catalog, icecore.open(tmp_path / "lake") as other:
        catalog.create_namespace("shop")
        table = other.create_table("shop.t", SCHEMA)

        def replayed(*of: Any) -> ReplayedModels:
            found = ReplayedModels(*of)
            table.append([{"id": 1, "city": "Oslo"}])
            return found

        monkeypatch.setattr(verify_models, "ReplayedModels", replayed)
        assert ask(catalog, "SELECT aspect, detail FROM log_health WHERE NOT ok") == []
        assert catalog.position == 3


def test_an_archived_log_is_told_from_its_archive(tmp_path: Path) -> None:
    """And a missing archive is a problem of the tables whose events it has."""
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.t", SCHEMA).append([{"id": 1, "city": "Oslo"}])
        catalog.load_table("shop.t").append([{"id": 2, "city": "Rome"}])
        queries = [f"SELECT * FROM {name} ORDER BY ALL" for name in (*OF_EVENTS, "events")]
        before = [ask(catalog, query) for query in queries]
        catalog.archive(before=4, path=tmp_path / "old.db")
        catalog.create_table("shop.late", SCHEMA)
        assert [[r for r in ask(catalog, q) if r["name"] != "late"] for q in queries] == before
        (tmp_path / "old.db").unlink()
        found = ask(catalog, "SELECT s.name, p.name AS problem, kind FROM schema_history AS s, problems AS p")
        assert found == [{"name": "late", "problem": "t", "kind": "MissingArchiveError"}] * 2


def test_only_events_of_the_named_tables_are_read(lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """And they are those that a filter of all events leaves."""
    everything = ask(lake, "SELECT * FROM events")
    monkeypatch.setattr(icecore.Catalog, "log", None)
    for name in {row["name"] for row in everything} - {None}:
        expected = [row for row in everything if row["name"] == name]
        assert ask(lake, f"SELECT * FROM events WHERE name = '{name}' ORDER BY position") == expected
    query = "SELECT count(*) AS n FROM events WHERE table_uuid = '00000000-0000-0000-0000-000000000000'"
    assert ask(lake, query) == [{"n": 0}]


def test_events_of_views_are_found_by_name(catalog: icecore.Catalog) -> None:
    catalog.create_view("ns.v", "SELECT 1 AS x")
    assert ask(catalog, "SELECT kind FROM events WHERE name = 'v'") == [{"kind": "view.created"}]


def test_bounds_of_columns_that_were_dropped_are_told(catalog: icecore.Catalog) -> None:
    """The log still has them: by the name that the column had, with its id where another one has that name by now."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append([{"id": 1, "city": "Oslo"}])
    for is_added in (False, True):
        with table.update_schema() as schema:
            _ = schema.add_column("city", "string") if is_added else schema.delete_column("city")
        query = "SELECT unnest(map_entries(readable_metrics)) AS m FROM file_history"
        bounds = {r["m"]["key"]: r["m"]["value"]["lower_bound"] for r in ask(catalog, query)}
        assert bounds == {"id": "1", "city": "Oslo"} or bounds == {"id": "1", "city": None, "city (field 2)": "Oslo"}
    assert "city (field 2)" in bounds


@pytest.mark.parametrize("is_registered", [False, True])
def test_files_of_a_purged_table_that_others_wrote_are_told(tmp_path: Path, is_registered: bool) -> None:
    """The log keeps what they wrote, also what a registered table had before; in another folder, too."""
    query = "SELECT file_path, change FROM file_history ORDER BY position"
    with icecore.open(tmp_path / "first") as first, icecore.open(tmp_path / "lake") as catalog:
        for lake in (first, catalog):
            lake.create_namespace("shop")
        made = (first if is_registered else catalog).create_table("shop.t", SCHEMA)
        if is_registered:
            made.append([{"id": 1, "city": "Oslo"}])
            catalog.register_table("shop.t", str(made.metadata_location))
        peer = pyiceberg_catalog(tmp_path / "lake")
        peer.load_table("shop.t").append(pa.table({"id": [2], "city": ["Rome"]}, schema=SCHEMA))
        peer.close()
        catalog.load_table("shop.t").append([{"id": 3, "city": "Bern"}])
        found = ask(catalog, query)
        catalog.drop_table("shop.t", purge=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ask(catalog, query) == found
            assert not [f for f in catalog.audit().findings if f.rule == "unreadable-tables"]
    (tmp_path / "lake").rename(tmp_path / "moved")
    icecore.move_warehouse(tmp_path / "moved")
    with icecore.open(tmp_path / "moved") as catalog:
        assert [row["change"] for row in ask(catalog, query)] == ["added"] * len(found)
