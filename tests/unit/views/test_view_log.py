"""Views are events: their files, their past and their traces in the log all follow from it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from attrs import evolve
from core_tables import local, make_table, repository_of, rows, store_of

import icecore
from icecore.engine.errors import CorruptLogError, NoSuchViewError, ValidationError
from icecore.engine.metadata.view_fold import ViewState, fold_view
from icecore.engine.repository import view_repository
from icecore.engine.spec.view import ViewMetadata
from icecore.engine.storage.file_io import Storage
from icecore.engine.view.view import View
from icecore.projections.files.file_follower import MaterializationWarning


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def replay(catalog: icecore.Catalog, stream: str) -> ViewState | None:
    return fold_view(None, store_of(catalog).stream_events(stream))


@pytest.fixture
def view(catalog: icecore.Catalog) -> View:
    make_table(catalog).append(rows(1, 2))
    return catalog.create_view("ns.v", "SELECT id FROM t", message="first")


def test_v1_metadata_files_are_named_by_the_event_and_hold_the_metadata(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    first, created = view.metadata_location, view.metadata
    view.set_properties({"write.metadata.compression-codec": "none"})
    event = store_of(catalog).event_at(view.state.position)
    assert first.endswith(".gz.metadata.json")
    assert ViewMetadata.from_json(gzip.decompress(local(first).read_bytes())) == created
    assert view.metadata_location == f"{view.location()}/metadata/00001-{event.event_id}.metadata.json"
    assert orjson.loads(local(view.metadata_location).read_bytes()) == view.metadata.to_dict()
    view.set_properties({"write.metadata.path": "elsewhere"})
    assert view.metadata_location.startswith(f"{view.location()}/elsewhere/00002-")
    assert ViewMetadata.from_json(local(view.metadata_location).read_bytes()) == view.metadata


def test_an_event_holds_all_that_was_assigned(catalog: icecore.Catalog, view: View) -> None:
    view.replace("SELECT id, name FROM t").set_current_version(1)
    store = store_of(catalog)
    events = list(store.stream_events(view.state.stream))
    assert [e.kind for e in events] == ["view.created", "view.committed", "view.committed"]
    assert events[0].payload["requirements"] == [{"type": "assert-create"}]
    assert events[1].payload["requirements"] == [{"type": "assert-view-uuid", "uuid": view.metadata.view_uuid}]
    added = next(u for u in events[1].payload["updates"] if u["action"] == "add-view-version")
    assert (added["view-version"]["version-id"], added["view-version"]["schema-id"]) == (2, 1)
    assert added["view-version"]["timestamp-ms"] == events[1].recorded_at_ms
    assert [e.timestamp_ms for e in view.history()] == [e.recorded_at_ms for e in events]
    assert replay(catalog, view.state.stream) == view.state


def test_a_rebuild_gives_the_same_bytes_and_verify_is_content(
    catalog: icecore.Catalog, view: View, warehouse: Path
) -> None:
    view.replace("SELECT name FROM t").set_properties({"version.history.num-entries": "1"})
    catalog.create_view("ns.w", "SELECT 1 AS x")
    catalog.rename_view("ns.w", "ns.x")
    catalog.drop_view("ns.x")
    verified = catalog.verify()
    assert (verified.ok, verified.tables, verified.views) == (True, 1, 2)
    assert "1 table, 2 views, " in str(verified)
    connection = store_of(catalog).connection()
    models = "SELECT * FROM iceberg_tables UNION ALL SELECT namespace, name, kind, stream, 0, 0 FROM catalog_name"
    before = (files_below(warehouse / "ns"), [tuple(r) for r in connection.execute(models)])
    for path in warehouse.rglob("*.metadata.json"):
        path.unlink()
    assert "v/metadata" in str(catalog.verify())
    catalog.rebuild()
    after = (files_below(warehouse / "ns"), [tuple(r) for r in connection.execute(models)])
    assert after[0] == before[0]
    assert [r[:4] for r in after[1]] == [r[:4] for r in before[1]]
    assert catalog.verify().ok
    assert catalog.load_view("ns.v") == view


def test_verify_finds_a_file_a_name_or_a_pointer_that_is_not_as_the_log_says(
    catalog: icecore.Catalog, view: View
) -> None:
    store = store_of(catalog)
    connection = store.connection()
    path = local(view.metadata_location)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    connection.execute("UPDATE catalog_name SET name = 'other' WHERE kind = 'view'")
    connection.execute("UPDATE iceberg_tables SET metadata_location = 'x' WHERE iceberg_type = 'VIEW'")
    found = str(catalog.verify())
    assert "its bytes were changed" in found
    assert "the log calls it ns.v, the read models ns.other" in found
    assert "ns.v: iceberg_tables points at x" in found


def test_a_crash_between_the_event_and_its_file_heals_at_the_next_open(
    catalog: icecore.Catalog, view: View, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(view_repository, "write_view", full)
        patched.setattr(view_repository, "catch_up_view", full)
        with pytest.warns(MaterializationWarning, match="OSError: no space"):
            view.replace("SELECT name FROM t")
    assert view.current_version().version_id == 2
    assert not local(view.metadata_location).exists()
    assert "its files are written up to version 1 of 2" in str(catalog.verify())
    other = open_again()
    assert local(view.metadata_location).exists()
    assert other.verify().ok
    assert other.load_view("ns.v") == view


def test_a_file_that_can_not_be_written_is_written_by_the_next_commit(
    catalog: icecore.Catalog, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_views(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "write_atomic", no_views)
        with pytest.warns(MaterializationWarning):
            view.set_properties({"a": "1"})
    missing = view.metadata_location
    view.set_properties({"a": "2"})
    assert local(missing).exists()
    assert catalog.verify().ok


def test_the_past_shows_views_and_what_they_read_as_they_were(catalog: icecore.Catalog, view: View) -> None:
    before = catalog.position
    catalog.load_table("ns.t").append(rows(3))
    view.replace("SELECT id + 10 AS id FROM t")
    catalog.create_view("ns.w", "SELECT sum(id) AS s FROM v")
    middle = catalog.position
    catalog.rename_view("ns.v", "ns.moved")
    catalog.drop_view("ns.w")
    past, then, now = catalog.at(before), catalog.at(middle), catalog.at(catalog.position)
    assert sorted(past.load_view("ns.v").to_arrow()["id"].to_pylist()) == [1, 2]
    assert past.load_view("ns.v").metadata.current_version_id == 1
    assert then.load_view("ns.w").to_arrow()["s"].to_pylist() == [36]
    assert (past.list_views(), then.list_views("ns")) == ([("ns", "v")], [("ns", "v"), ("ns", "w")])
    assert (now.list_views(), now.list_tables()) == ([("ns", "moved")], [("ns", "t")])
    assert (past.view_exists("ns.v"), past.view_exists("ns.t"), past.table_exists("ns.v")) == (True, False, False)
    for name in ("ns.v", "ns.t"):
        with pytest.raises(NoSuchViewError, match=f"^View does not exist: {name} at position"):
            now.load_view(name)


def test_the_log_says_what_was_done_to_a_view(catalog: icecore.Catalog, view: View) -> None:
    view.replace("SELECT name FROM t", message="names", author="somebody").set_current_version(1)
    view.set_properties({"comment": "hello"})
    catalog.rename_view("ns.v", "ns.w", message="better")
    catalog.drop_view("ns.w")
    found = [r for r in catalog.log().to_pylist() if r["stream"].startswith("view:")]
    assert [(r["kind"], r["name"], r["changes"], r["actor"], r["message"]) for r in found] == [
        ("view.created", "ns.v", "create view ns.v; schema 0; version 1 (duckdb)", "tester", "first"),
        ("view.committed", "ns.v", "schema 1; version 2 (duckdb)", "somebody", "names"),
        ("view.committed", "ns.v", "back to version 1", "tester", None),
        ("view.committed", "ns.v", "set comment", "tester", None),
        ("view.renamed", "ns.w", "rename to ns.w", "tester", "better"),
        ("view.dropped", "ns.w", "drop ns.w", "tester", None),
    ]
    catalog.create_view("ns.x", "SELECT 1 AS x")
    assert catalog.log("ns.x")["kind"].to_pylist() == ["view.created"]


def test_an_audit_lists_the_views(catalog: icecore.Catalog, view: View) -> None:
    catalog.create_view("ns.w", "SELECT 1 AS x", representations={"trino": "SELECT 1 x"}, comment="one")
    view.replace("SELECT id, name FROM t")
    found = catalog.sql("SELECT name, current_version_id, versions, columns, sql, properties FROM views ORDER BY name")
    assert found.to_pylist() == [
        {
            "name": "v",
            "current_version_id": 2,
            "versions": 2,
            "columns": 2,
            "sql": [("duckdb", "SELECT id, name FROM t")],
            "properties": [],
        },
        {
            "name": "w",
            "current_version_id": 1,
            "versions": 1,
            "columns": 1,
            "sql": [("duckdb", "SELECT 1 AS x"), ("trino", "SELECT 1 x")],
            "properties": [("comment", "one")],
        },
    ]
    who = catalog.sql("SELECT v.name, l.message FROM views v JOIN log l ON l.stream = 'view:' || v.view_uuid LIMIT 1")
    assert who.num_rows == 1
    assert catalog.sql("SELECT count(*) AS n FROM tables")["n"].to_pylist() == [1]


def test_a_view_of_the_past_has_the_name_that_it_has_now(catalog: icecore.Catalog, view: View) -> None:
    """None once it is dropped; events call its UUID that of a table."""
    names = "SELECT name, name_now FROM views"
    position = catalog.position
    catalog.rename_view("ns.v", "ns.w")
    assert catalog.at(position).sql(names).to_pylist() == [{"name": "v", "name_now": "ns.w"}]
    assert catalog.sql(names).to_pylist() == [{"name": "w", "name_now": "ns.w"}]
    assert catalog.sql("SELECT 1 FROM views v JOIN events e ON e.table_uuid = v.view_uuid").num_rows == 2
    catalog.drop_view("ns.w")
    assert catalog.at(position).sql(names).to_pylist() == [{"name": "v", "name_now": None}]


def test_a_commit_that_is_refused_leaves_nothing_behind(catalog: icecore.Catalog, view: View) -> None:
    position, state = catalog.position, view.state
    with pytest.raises(ValidationError):
        view.set_properties({"version.history.num-entries": "none"})
    with pytest.raises(ValidationError):
        view.replace("SELECT nothing FROM t")
    assert (catalog.position, catalog.load_view("ns.v").state) == (position, state)


def test_events_that_can_not_follow_are_found(catalog: icecore.Catalog, view: View) -> None:
    view.replace("SELECT name FROM t")
    first, second = store_of(catalog).stream_events(view.state.stream)
    with pytest.raises(CorruptLogError, match=r"version 2 of view:.*, expected 1"):
        fold_view(None, [second])
    for broken, message in (
        (evolve(first, kind="view.committed"), "before the view was created"),
        (evolve(first, payload_text='{"identifier": ["ns", "v"]}'), "KeyError 'updates'"),
        (evolve(first, payload_text='{"identifier": ["ns", "v"], "updates": [{"action": "fly"}]}'), "unknown view"),
    ):
        with pytest.raises(CorruptLogError, match=message):
            fold_view(None, [broken])
    with pytest.raises(CorruptLogError, match="unknown kind"):
        fold_view(None, [first, evolve(second, kind="view.exploded")])


def test_the_tables_repository_leaves_the_streams_of_views_alone(catalog: icecore.Catalog, view: View) -> None:
    repository_of(catalog).files.heal()
    catalog.materialize()
    assert catalog.verify().ok


def test_writers_at_the_same_time_lose_nothing(catalog: icecore.Catalog, view: View, warehouse: Path) -> None:
    def write(name: str) -> None:
        with icecore.open(warehouse) as own:
            for i in range(4):
                own.load_view("ns.v").replace(f"SELECT {i} AS {name}")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, ("a", "b", "c")))
    assert view.refresh().state.stream_version == 13
    assert [v.version_id for v in view.versions()] == [e.version_id for e in view.history()] == list(range(4, 14))
    assert catalog.verify().ok
