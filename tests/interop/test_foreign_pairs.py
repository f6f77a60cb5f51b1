"""Which table of the log stands in which row, where other engines changed several names, or a row can't be read."""

from __future__ import annotations

import gzip
import json
import sqlite3
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows, store_of
from foreign_peer import kinds
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.errors import ForeignCommitError, StorageError
from icecore.engine.events import event as ev
from icecore.engine.foreign.adopter import MAX_ROUNDS, ForeignCommitWarning
from icecore.engine.storage.file_io import Storage

MAKE_ROW = "INSERT INTO iceberg_tables VALUES ('icecore', 'ns', ?, ?, NULL, ?)"


def change_rows(catalog: icecore.Catalog, *changes: tuple[str, tuple[str, ...]]) -> None:
    """Statements of another engine's in the SQLite file, in one transaction."""
    with closing(sqlite3.connect(catalog.path / "icecore.db")) as connection, connection:
        for statement, values in changes:
            connection.execute(statement, values)


def move_row(name: str, location: str) -> tuple[str, tuple[str, ...]]:
    """The change of a row's metadata file."""
    return "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (location, name)


def another(location: str | None, folder: Path, **changes: Any) -> str:
    """A copy of a metadata file with changes."""
    data = local(location).read_bytes()
    made = folder / f"{uuid.uuid4()}.metadata.json"
    made.write_text(json.dumps(json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data) | changes))
    return f"file://{made}"


@pytest.fixture
def store_fails(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No metadata file can be read until it is undone."""
    read = Storage.read_bytes

    def failing(self: Storage, location: str, *args: Any) -> bytes:
        if location.endswith(".metadata.json"):
            raise StorageError(f"can't read {location}: timed out")
        return read(self, location, *args)

    monkeypatch.setattr(Storage, "read_bytes", failing)
    return monkeypatch


def test_a_rename_is_no_drop_while_the_store_does_not_answer(
    catalog: icecore.Catalog, peer: SqlCatalog, store_fails: pytest.MonkeyPatch
) -> None:
    """With a commit after it, it waits until the file can be read; meanwhile nothing can be purged."""
    table = make_table(catalog)
    table.append(rows(1))
    peer.rename_table("ns.t", "ns.u")
    peer.load_table("ns.u").append(rows(2))
    with pytest.warns(ForeignCommitWarning) as warned:
        assert catalog.list_tables("ns") == [("ns", "t")]
    assert ["timed out" in str(w.message) for w in warned] == [True, False]
    with pytest.raises(ForeignCommitError, match="timed out"):
        catalog.purge_table("ns.t")
    with pytest.raises(ForeignCommitError):
        catalog.drop_table("ns.t")
    store_fails.undo()
    assert catalog.list_tables("ns") == [("ns", "t")], "nobody wrote since"
    assert ids_of(catalog.load_table("ns.u")) == peer_ids(catalog.path, "ns.u") == [1, 2]
    assert kinds(catalog)[-2:] == [ev.TABLE_RENAMED, ev.TABLE_ADOPTED]


@pytest.mark.usefixtures("store_fails")
def test_a_rename_without_a_commit_needs_no_file(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """The row has the very file that the log published."""
    make_table(catalog)
    peer.rename_table("ns.t", "ns.u")
    assert catalog.list_tables("ns") == [("ns", "u")]


def test_a_dropped_table_that_a_row_may_hold_is_not_purged(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Neither while the row's file can't be read, nor where it is of this table and can't be taken in."""
    make_table(catalog)
    table = make_table(catalog, "mine")
    moved = another(table.metadata_location, tmp_path)
    catalog.drop_table("ns.mine")
    change_rows(catalog, (MAKE_ROW, ("theirs", f"{moved}.lost", "TABLE")))
    with pytest.raises(ForeignCommitError, match=r"ns\.theirs"):
        catalog.purge_table("ns.mine")
    with pytest.raises(ForeignCommitError, match=r"ns\.theirs"):
        catalog.drop_table("ns.t", purge=True)
    change_rows(catalog, ("DELETE FROM iceberg_tables WHERE table_name = ?", ("theirs",)))
    assert catalog.purge_table("ns.mine").deleted_files


def test_tables_of_one_uuid_keep_their_rows(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Both are renamed, and one is committed to: each is known by its files, whatever the order of the names."""
    table = make_table(catalog, "a")
    table.append(rows(1))
    catalog.register_table("ns.copy", str(table.metadata_location)).append(rows(2))
    table.append(rows(100))
    peer.rename_table("ns.a", "ns.z")
    peer.load_table("ns.z").append(rows(101))
    peer.rename_table("ns.copy", "ns.b")
    assert ids_of(catalog.load_table("ns.b")) == peer_ids(catalog.path, "ns.b") == [1, 2]
    assert ids_of(catalog.load_table("ns.z")) == peer_ids(catalog.path, "ns.z") == [1, 100, 101]
    assert catalog.verify().problems == ()


def test_of_tables_of_one_uuid_the_one_that_is_gone_is_dropped(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """The backup goes and the table gets its name: the log drops the backup's history, not the table's."""
    table = make_table(catalog)
    table.append(rows(1))
    backup = catalog.register_table("ns.backup", str(table.metadata_location))
    table.append(rows(2))
    peer.drop_table("ns.backup")
    peer.rename_table("ns.t", "ns.backup")
    assert ids_of(catalog.load_table("ns.backup")) == [1, 2]
    assert table.refresh().name() == ("ns", "backup")
    gone = [e.stream for e in store_of(catalog).events() if e.kind == ev.TABLE_DROPPED]
    assert gone == [backup.state.stream]


def test_tables_that_go_round_keep_their_histories(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Three names go round between two looks, and a fourth table takes the name of one that was dropped."""
    tables = {name: make_table(catalog, name) for name in "abcde"}
    for number, table in enumerate(tables.values()):
        table.append(rows(number))
    before = len(kinds(catalog))
    peer.drop_table("ns.e")
    for old, new in (("c", "x"), ("b", "c"), ("a", "b"), ("x", "a"), ("d", "e")):
        peer.rename_table(f"ns.{old}", f"ns.{new}")
    assert catalog.list_tables("ns") == [("ns", name) for name in "abce"]
    assert Counter(kinds(catalog)[before:]) == {ev.TABLE_RENAMED: 5, ev.TABLE_DROPPED: 1}
    assert [tables[old].refresh().name()[-1] for old in "abcd"] == ["b", "c", "a", "e"]
    assert [ids_of(catalog.load_table(f"ns.{name}")) for name in "abce"] == [[2], [0], [1], [3]]
    assert catalog.verify().problems == ()


def test_many_names_that_hold_other_tables_are_read_once(
    catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is read to see whose it is, and again to register it: not once for each other name."""
    tables = [make_table(catalog, f"t{i}") for i in range(8)]
    files = [another(t.metadata_location, tmp_path, **{"table-uuid": str(uuid.uuid4())}) for t in tables]
    change_rows(catalog, *(move_row(f"t{i}", location) for i, location in enumerate(files)))
    read, seen = Storage.read_bytes, Counter[str]()

    def counting(self: Storage, location: str, *args: Any) -> bytes:
        seen[location] += 1
        return read(self, location, *args)

    monkeypatch.setattr(Storage, "read_bytes", counting)
    assert len(catalog.list_tables("ns")) == 8
    assert kinds(catalog)[-16:] == [ev.TABLE_DROPPED] * 8 + [ev.TABLE_REGISTERED] * 8
    assert max(seen[location] for location in files) <= 2


def test_many_rows_that_cant_be_read_stand_in_nobodys_way(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """However many there are: the commit to another table is taken in."""
    make_table(catalog)
    peer.load_table("ns.t").append(rows(1))
    number = MAX_ROUNDS + 10
    change_rows(catalog, *((MAKE_ROW, (f"a{i}", f"file:///nowhere/{i}.metadata.json", "TABLE")) for i in range(number)))
    with pytest.warns(ForeignCommitWarning) as warned:
        assert catalog.list_tables("ns") == [("ns", "t")]
    assert len(warned) == number
    assert ids_of(catalog.load_table("ns.t")) == [1]


def test_what_can_be_read_and_not_registered_takes_back_only_itself(
    catalog: icecore.Catalog, peer: SqlCatalog, tmp_path: Path
) -> None:
    """A row of a name that no table can have: the tables before and after it are registered."""
    table = make_table(catalog)
    made = [another(table.metadata_location, tmp_path, **{"table-uuid": str(uuid.uuid4())}) for _ in "abc"]
    names = ("a", "b" * 3000, "c")
    change_rows(catalog, *((MAKE_ROW, (name, at, "TABLE")) for name, at in zip(names, made, strict=True)))
    with pytest.warns(ForeignCommitWarning, match="bbb"):
        assert catalog.list_tables("ns") == [("ns", "a"), ("ns", "c"), ("ns", "t")]
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_name_that_changes_its_kind(catalog: icecore.Catalog, tmp_path: Path, kind: str) -> None:
    """A view takes the place of a table, or a table that of a view: the one is dropped, the other registered."""
    view, table = catalog.create_view("ns.v", "SELECT 1 AS a"), make_table(catalog)
    location, key, name = (
        (table.metadata_location, "table-uuid", "v") if kind == "TABLE" else (view.metadata_location, "view-uuid", "t")
    )
    new = another(location, tmp_path, **{key: str(uuid.uuid4())})
    change_rows(catalog, ("DELETE FROM iceberg_tables WHERE table_name = ?", (name,)), (MAKE_ROW, (name, new, kind)))
    found = {"TABLE": catalog.list_tables, "VIEW": catalog.list_views}[kind]("ns")
    assert found == [("ns", "t"), ("ns", "v")]
    kept = (ev.VIEW_DROPPED, ev.TABLE_REGISTERED) if kind == "TABLE" else (ev.TABLE_DROPPED, ev.VIEW_REGISTERED)
    assert tuple(kinds(catalog)[-2:]) == kept
    assert catalog.verify().problems == ()


def test_two_commits_to_a_view_between_two_looks(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """The last one is taken in, and the event names the file that was missed; without our version it is a conflict."""
    view = catalog.create_view("ns.v", "SELECT 1 AS a")
    first, second = (another(view.metadata_location, tmp_path, properties={"k": k}) for k in "12")
    commit = "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE table_name = 'v'"
    change_rows(catalog, (commit, (second, first)))
    assert catalog.load_view("ns.v").properties["k"] == "2"
    *_, last = store_of(catalog).events()
    assert (last.kind, last.payload["skipped"]) == (ev.VIEW_ADOPTED, [first])
    versions = [v | {"version-id": 7} for v in json.loads(local(second).read_text())["versions"]]
    log = [{"version-id": 7, "timestamp-ms": versions[0]["timestamp-ms"]}]
    lost = another(second, tmp_path, **{"versions": versions, "current-version-id": 7, "version-log": log})
    change_rows(catalog, (commit, (lost, first)))
    with pytest.warns(ForeignCommitWarning, match="does not follow"):
        assert catalog.load_view("ns.v").properties["k"] == "2"


def test_views_that_change_places_keep_their_histories(catalog: icecore.Catalog) -> None:
    """Another engine exchanges two names and gives a third view a new one: three are renamed, none is made anew."""
    views = {name: catalog.create_view(f"ns.{name}", f"SELECT {i} AS a") for i, name in enumerate("uvw")}
    before = len(kinds(catalog))
    moves = (("u", "x"), ("v", "u"), ("x", "v"), ("w", "z"))
    change_rows(catalog, *(("UPDATE iceberg_tables SET table_name = ? WHERE table_name = ?", (b, a)) for a, b in moves))
    assert catalog.list_views("ns") == [("ns", "u"), ("ns", "v"), ("ns", "z")]
    assert Counter(kinds(catalog)[before:]) == {ev.VIEW_RENAMED: 4}
    assert [catalog.load_view(f"ns.{n}").metadata.view_uuid for n in "vuz"] == [
        v.metadata.view_uuid for v in views.values()
    ]
    assert catalog.verify().problems == ()
