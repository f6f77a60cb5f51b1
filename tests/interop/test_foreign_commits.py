"""What PyIceberg does in the warehouse's own SQLite file is taken into the log; nothing is lost or overwritten."""

from __future__ import annotations

import datetime as dt
import shutil
import threading
from typing import Any
from unittest.mock import Mock

import pytest
from attrs import evolve
from core_tables import ids_of, local, make_table, peer_ids, repository_of, rows, store_of
from foreign_peer import kinds, location_of
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import StringType
from sqlalchemy.exc import OperationalError

import icecore
from icecore.engine.errors import ForeignCommitError
from icecore.engine.events import event as ev
from icecore.engine.foreign.adopter import Adopter, ForeignCommitWarning
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.files.materialize import Materializer

SCHEMES = ("metastore", "filesystem")

# Commits


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "ours", ["load", "refresh", "open", "append", "delete", "schema", "properties", "rebuild", "sql"]
)
def test_a_commit_of_pyiceberg_is_adopted_by_the_next_of_ours(
    catalog: icecore.Catalog, peer: SqlCatalog, ours: str, scheme: str
) -> None:
    """Whatever comes next takes two commits of PyIceberg in, in order, and goes on from them."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1))
    position = catalog.position
    peer.load_table("ns.t").append(rows(2))
    first = location_of(peer)
    peer.load_table("ns.t").append(rows(3))
    second = location_of(peer)
    expected = [1, 2, 3]
    match ours:
        case "load":
            table = catalog.load_table("ns.t")
        case "refresh":
            table.refresh()
        case "open":
            icecore.open(catalog.path).close()
        case "append":
            table.append(rows(4))
            expected = [1, 2, 3, 4]
        case "delete":
            table.delete("id < 3")
            expected = [3]
        case "schema":
            table.update_schema().add_column("x", "long").commit()
        case "properties":
            table.set_properties({"a": "b"})
        case "sql":
            assert catalog.sql("SELECT count(*) AS n FROM snapshots").to_pylist() == [{"n": 3}]
        case _:
            catalog.rebuild()
    adopted = [e for e in store_of(catalog).events(position) if e.kind == ev.TABLE_ADOPTED]
    assert [e.payload["metadata-location"] for e in adopted] == [first, second]
    assert ids_of(table.refresh()) == peer_ids(catalog.path) == expected
    assert catalog.verify().problems == ()
    if ours in ("append", "delete", "schema", "properties"):
        assert [e.metadata_file for e in table.metadata.metadata_log[-2:]] == [first, second]
        assert table.metadata_location == location_of(peer)
        assert scheme != "filesystem" or table.metadata_location.endswith("/v3.metadata.json"), "versions have no gap"
    assert ids_of(catalog.at(position).load_table("ns.t")) == [1]
    assert ids_of(catalog.at(position + 1).load_table("ns.t")) == [1, 2]


def test_turns_are_taken(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Both write by turns, with deletes and evolution: both see all, and a rebuild gives the same."""
    table = make_table(catalog)
    for i in range(4):
        table.append(rows(10 * i, 10 * i + 1))
        theirs = peer.load_table("ns.t")
        theirs.append(rows(10 * i + 2))
        if i == 1:
            with theirs.update_schema() as update:
                update.add_column("note", StringType())
        theirs.delete(f"id = {10 * i}")
        table.delete(f"id = {10 * i + 1}")
    expected = [2, 12, 22, 32]
    assert ids_of(table) == peer_ids(catalog.path) == expected
    pointer = location_of(peer)
    catalog.rebuild()
    assert location_of(peer) == pointer
    with icecore.open(catalog.path) as again:
        assert ids_of(again.load_table("ns.t")) == expected
        assert again.verify().problems == ()


def test_an_adopted_commit_says_who_and_what(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """The log names the operation, its counts and snapshot, and that it was none of ours."""
    table = make_table(catalog)
    peer.load_table("ns.t").append(rows(1, 2))
    with peer.load_table("ns.t").update_schema() as update:
        update.add_column("note", StringType())
    table.refresh()
    first, second = catalog.log("ns.t").to_pylist()[1:]
    assert (first["kind"], first["operation"], first["actor"]) == ("table.adopted", "append", None)
    assert first["engine"] == "another engine"
    assert "append: + 1 file, + 2 rows; branch main" in first["changes"]
    assert first["snapshot_id"] == peer.load_table("ns.t").current_snapshot().snapshot_id
    assert "schema 1" in second["changes"]
    found = catalog.diff(catalog.position - 2).table(("ns", "t"))
    assert found is not None
    assert sum(f.added_rows for f in found.files) == 2


def test_lost_files_of_theirs_come_back_from_the_log(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """The log holds an adopted file's bytes: it is missed by verify, and rebuilt where the table still names it."""
    table = make_table(catalog)
    peer.load_table("ns.t").append(rows(1))
    path = local("file://" + location_of(peer).removeprefix("file://"))
    data = path.read_bytes()
    table.refresh()
    path.unlink()
    assert [path.name in p for p in catalog.verify().problems] == [True]
    catalog.rebuild()
    assert path.read_bytes() == data
    assert catalog.verify().problems == ()
    path.write_bytes(data.replace(b"append", b"nothng"))
    assert any("changed" in p and path.name in p for p in catalog.verify().problems)


def test_an_exported_log_brings_adopted_commits_along(
    catalog: icecore.Catalog, peer: SqlCatalog, tmp_path: Any
) -> None:
    """Export and import carry adopted events; the metadata folder is made again, theirs included."""
    table = make_table(catalog)
    table.append(rows(1))
    peer.load_table("ns.t").append(rows(2))
    table.append(rows(3))
    folder = local(table.metadata_location).parent
    before = {p.name: p.read_bytes() for p in folder.glob("*.metadata.json")}
    catalog.export_log(tmp_path / "log.jsonl")
    catalog.close()
    for path in (*folder.glob("*.metadata.json"), *catalog.path.glob("icecore.db*")):
        path.unlink()
    icecore.import_log(tmp_path / "log.jsonl", catalog.path)
    assert {p.name: p.read_bytes() for p in folder.glob("*.metadata.json")} == before
    with icecore.open(catalog.path) as other:
        assert ids_of(other.load_table("ns.t")) == [1, 2, 3]
        assert peer_ids(other.path) == [1, 2, 3]


def test_lost_files_between_are_noted(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Where a file in the middle is gone the newest is adopted all the same, and the event says what is missing."""
    table = make_table(catalog)
    peer.load_table("ns.t").append(rows(1))
    lost = location_of(peer)
    peer.load_table("ns.t").append(rows(2))
    local("file://" + lost.removeprefix("file://")).unlink()
    assert ids_of(table.refresh()) == [1, 2]
    last = list(store_of(catalog).events())[-1]
    assert last.payload["skipped"] == [lost]
    assert catalog.verify().problems == ()


def test_the_log_says_what_it_can_not_know(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """A property that another engine set and set back is told of, unless the version between is gone: so is that."""
    table = make_table(catalog, properties={"owner": "ann"})
    locations = list[str]()

    def set_and_back() -> list[str]:
        position = catalog.position
        for owner in ("eve", "ann"):
            with peer.load_table("ns.t").transaction() as change:
                change.set_properties(owner=owner)
            locations.append(location_of(peer))
        if position > first:
            local("file://" + locations[-2].removeprefix("file://")).unlink()
        table.refresh()
        told = catalog.log("ns.t").to_pylist()
        return [row["changes"].partition("; ")[2] for row in told if row["position"] > position]

    first = catalog.position
    assert set_and_back() == ["set owner", "set owner"]
    assert set_and_back() == ["1 version before it is gone"]
    known = [row["value"] for row in table.inspect.property_history().to_pylist() if row["key"] == "owner"]
    assert known == ["ann", "eve", "ann"]


def test_a_short_metadata_log_is_followed_file_by_file(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """A table that keeps one previous file has a log of one entry: the chain goes through the files themselves."""
    table = make_table(catalog, properties={"write.metadata.previous-versions-max": "1"})
    for i in range(4):
        peer.load_table("ns.t").append(rows(i))
    position = catalog.position
    assert ids_of(table.refresh()) == [0, 1, 2, 3]
    assert kinds(catalog, position) == [ev.TABLE_ADOPTED] * 4


def test_a_file_without_a_metadata_log_follows_the_one_that_its_row_names(
    catalog: icecore.Catalog, peer: SqlCatalog
) -> None:
    table = make_table(catalog)
    peer.load_table("ns.t").append(rows(1))
    made = local(location_of(peer))
    made.write_bytes(evolve(TableMetadata.from_json(made.read_bytes()), metadata_log=()).to_json())
    assert ids_of(table.refresh()) == peer_ids(catalog.path) == [1]


def test_what_was_adopted_before_a_crash_is_built_on(
    catalog: icecore.Catalog, peer: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pointer of the log goes with the events: the next commit of theirs follows it."""
    table = make_table(catalog)
    theirs = peer.load_table("ns.t")
    theirs.append(rows(1))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(AdoptionRun, "finish", Mock(side_effect=KeyboardInterrupt))
        table.refresh()
    theirs.append(rows(2))
    with icecore.open(catalog.path) as again:
        assert ids_of(again.load_table("ns.t")) == peer_ids(catalog.path) == [1, 2]
        assert again.verify().problems == ()


def test_pyiceberg_never_comes_between_event_and_pointer(
    catalog: icecore.Catalog, peer: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While files are written PyIceberg can't commit: the pointer moves in the transaction that holds the event."""
    table = make_table(catalog)
    table.append(rows(1))
    theirs = peer.load_table("ns.t")
    original = Materializer._move_pointers
    started, outcome = threading.Event(), list[str]()

    def commit() -> None:
        started.wait(60)
        try:
            theirs.append(rows(2))
            outcome.append("committed")
        except (CommitFailedException, OperationalError):
            # The second is SQLite's, after it waited for five seconds.
            outcome.append("refused")

    def late(self: Materializer, *args: Any) -> None:
        started.set()
        thread.join(0.7)
        assert outcome == [], "PyIceberg waits for the lock"
        original(self, *args)

    thread = threading.Thread(target=commit)
    thread.start()
    monkeypatch.setattr(Materializer, "_move_pointers", late)
    table.append(rows(3))
    thread.join(60)
    assert outcome in (["refused"], ["committed"])
    monkeypatch.undo()
    expected = [1, 3] if outcome == ["refused"] else [1, 2, 3]
    assert ids_of(table.refresh()) == peer_ids(catalog.path) == expected
    assert catalog.verify().problems == ()


def test_a_commit_that_comes_after_ours_was_prepared_is_decided_again(
    catalog: icecore.Catalog, peer: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg commits between our look and our lock: ours is decided again on top of it."""
    table = make_table(catalog)
    repository = repository_of(catalog)
    original = type(repository)._try_commit
    left = [1, 2]

    def late(self: Any, *args: Any) -> Any:
        if left:
            peer.load_table("ns.t").append(rows(left.pop()))
        return original(self, *args)

    monkeypatch.setattr(type(repository), "_try_commit", late)
    table.append(rows(3))
    assert ids_of(table) == peer_ids(catalog.path) == [1, 2, 3]
    assert kinds(catalog)[-3:] == [ev.TABLE_ADOPTED, ev.TABLE_ADOPTED, ev.TABLE_COMMITTED]


def test_a_transaction_over_tables_takes_both_in(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Each table of a multi-table commit takes in what came before."""
    one, two = make_table(catalog, "one"), make_table(catalog, "two")
    peer.load_table("ns.one").append(rows(1))
    peer.load_table("ns.two").append(rows(2))
    with catalog.transaction() as t:
        t.table("ns.one").append(rows(11))
        t.table("ns.two").append(rows(12))
    assert ids_of(one.refresh()) == peer_ids(catalog.path, "ns.one") == [1, 11]
    assert ids_of(two.refresh()) == peer_ids(catalog.path, "ns.two") == [2, 12]


def test_read_only_shows_the_log_and_says_so(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """What can't write can't adopt: the log's state, with a warning."""
    make_table(catalog).append(rows(1))
    peer.load_table("ns.t").append(rows(2))
    with pytest.warns(ForeignCommitWarning, match=r"ns\.t.*read-only, is behind until .*`icecore checkpoint`"):
        reader = icecore.open(catalog.path, read_only=True)
    assert ids_of(reader.load_table("ns.t")) == [1]
    reader.close()
    catalog.load_table("ns.t")
    with icecore.open(catalog.path, read_only=True) as again:
        assert ids_of(again.load_table("ns.t")) == [1, 2]


# File system tables


def test_a_rebuild_leaves_other_catalogs_of_the_file_alone(catalog: icecore.Catalog) -> None:
    """PyIceberg keeps several catalogs in one file; what the log has nothing of can't be made again from it."""
    make_table(catalog).append(rows(1))
    another = SqlCatalog("another", uri=f"sqlite:///{catalog.path}/icecore.db", warehouse=str(catalog.path / "there"))
    another.create_namespace("ns", {"owner": "them"})
    another.create_table("ns.t", rows().schema).append(rows(7))
    catalog.rebuild()
    assert another.load_namespace_properties("ns")["owner"] == "them"
    assert another.load_table("ns.t").scan().to_arrow()["id"].to_pylist() == [7]
    assert ids_of(catalog.load_table("ns.t")) == peer_ids(catalog.path) == [1]
    assert catalog.verify().problems == ()
    another.close()


def test_a_commit_that_comes_while_a_rebuild_begins_is_not_dropped(
    catalog: icecore.Catalog, peer: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of `iceberg_tables` is all that there is of it: the rebuild is refused, the next one takes it in."""
    make_table(catalog).append(rows(1))
    sync = Adopter.adopt_all

    def late(self: Adopter) -> Any:
        problems = sync(self)
        peer.load_table("ns.t").append(rows(2))
        return problems

    with monkeypatch.context() as patch, pytest.raises(ForeignCommitError, match="just now"):
        patch.setattr(Adopter, "adopt_all", late)
        catalog.rebuild()
    catalog.rebuild()
    assert ids_of(catalog.load_table("ns.t")) == peer_ids(catalog.path) == [1, 2]
    assert catalog.verify().problems == ()


def test_a_manifest_that_only_their_list_has_is_rebuilt(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Our snapshot, which made it, is expired since: what theirs needs is written again all the same."""
    make_table(catalog).append(rows(1))
    peer.load_table("ns.t").append(rows(2))
    table = catalog.load_table("ns.t")
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()
    assert len(table.snapshots()) == 1
    shutil.rmtree(local(table.metadata_location).parent)
    catalog.rebuild()
    assert catalog.verify(deep=True).problems == ()
    with icecore.open(catalog.path) as again:
        assert ids_of(again.load_table("ns.t")) == peer_ids(catalog.path) == [1, 2]
