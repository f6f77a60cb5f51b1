"""One commit shown whole, two moments compared, and the log of what was renamed or dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from core_tables import local, make_table, rows, store_of

import icecore
from icecore.engine.display.ref_graph import graph_lines
from icecore.engine.errors import MissingFileError, NoSuchSnapshotError, NoSuchTableError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.log.reader import EventReader


def test_a_commit_is_shown_whole(catalog: icecore.Catalog) -> None:
    """Who and why, each fact before and after, each file, each row; of a table that was dropped since too."""
    table = make_table(catalog)
    table.append(rows(1, 2), message="two rows", author="ann")
    with table.transaction(message="both") as changes:
        changes.delete("id = 1")
        changes.set_properties({"a": "1"})
    position = catalog.position
    catalog.drop_table("ns.t")
    shown = catalog.show_commit(position)
    assert (shown.position, shown.event["message"], shown.event["actor"]) == (position, "both", "tester")
    assert shown.together == (position,)
    [of_table] = shown.difference.tables
    assert ("property", "a", None, "1") in [(c.what, c.key, c.before, c.after) for c in of_table.changes]
    assert sorted(shown.files["change"].to_pylist()) == ["added", "removed"]
    changed = shown.rows()
    assert changed is not None
    assert [(r["_change_type"], r["id"]) for r in changed.to_pylist()] == [("DELETE", 1)]
    drop = catalog.show_commit(position + 1)
    assert drop.rows() is None and drop.files.num_rows == 0 and drop.event["kind"] == "table.dropped"
    catalog.purge_table("ns.t")
    assert "deleted" in catalog.show_commit(catalog.position).files["change"].to_pylist()
    for wrong in (0, catalog.position + 1):
        with pytest.raises(ValidationError, match="no commit at position"):
            catalog.show_commit(wrong)


def test_changes_whose_files_are_gone_say_who_let_them_go(catalog: icecore.Catalog) -> None:
    """Rows of a commit, of a difference and their blame, as all rows of the past: who expired or purged is told."""
    table = make_table(catalog)
    for ids in ([1, 2], [3]):
        table.append(rows(*ids))
    table.delete("id = 1")
    position = catalog.position
    for snapshot in table.snapshots()[:-1]:
        table.maintenance.expire_snapshots(author="cron", message="weekly").by_id(snapshot.snapshot_id).commit()
    said = rf"; expire-snapshots of ns\.t deleted it at position {catalog.position}, 20.* UTC, by cron \('weekly'\)"
    with pytest.raises(MissingFileError, match=said):
        catalog.show_commit(position).rows()
    make_table(catalog, "u").append(rows(1))
    position = catalog.position
    catalog.drop_table("ns.u")
    catalog.purge_table("ns.u", author="bob", message="space")
    said = rf"; ns\.u was purged at position {catalog.position}, 20.* UTC, by bob \('space'\)"
    of_past = catalog.at(position).load_table("ns.u")
    for read in (
        catalog.show_commit(position).rows,
        catalog.diff_table("ns.u", 0, position).rows,
        of_past.incremental_changelog_scan().to_arrow,
        of_past.blame,
    ):
        with pytest.raises(MissingFileError, match=said):
            read()


def test_who_expired_another_snapshot_is_not_said_to_have_let_a_file_go(catalog: icecore.Catalog) -> None:
    """One before that of the file may be long gone; one far before may be what had it."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.delete("id = 1")
    for i in (3, 4):
        table.append(rows(i))
    position = catalog.position
    of_past = catalog.at(position).load_table("ns.t")
    [mine] = [f.file.file_path for f in of_past.scan("id = 4").plan_files()]
    for snapshot in table.snapshots()[:-1]:
        table.maintenance.expire_snapshots(author="cron").by_id(snapshot.snapshot_id).commit()
    said = rf"; expire-snapshots of ns\.t deleted it at position {position + 2}, 20.* UTC, by cron$"
    with pytest.raises(MissingFileError, match=said):
        of_past.blame()
    local(mine).unlink()
    for read in (of_past.blame, catalog.show_commit(position).rows):
        with pytest.raises(MissingFileError, match=r"no such file; `icecore verify` tells all files that are gone$"):
            read()


def test_the_events_of_a_transaction_are_told(catalog: icecore.Catalog) -> None:
    make_table(catalog)
    with catalog.transaction() as both:
        both.table("ns.t").append(rows(1))
        both.rename_table("ns.t", "ns.u")
    end = catalog.position
    assert catalog.show_commit(end).together == (end - 1, end) == catalog.show_commit(end - 1).together


def test_a_table_that_came_with_rows_has_them_in_its_commit(catalog: icecore.Catalog) -> None:
    """As clients make one by `assert-create`, in one event: the log tells both."""
    make_table(catalog).append(rows(1, 2))
    catalog.drop_table("ns.t")
    asked = [
        u for e in store_of(catalog).events() for u in e.payload.get("updates", ()) if u["action"] != "assign-uuid"
    ]
    catalog.commit_table("ns.t", [{"type": "assert-create"}], asked)
    shown = catalog.show_commit(catalog.position)
    created, append, branch = shown.event["changes"].split("; ")
    assert (created, append) == ("create ns.t", "append: + 1 file, + 2 rows") and branch.startswith("branch main -> ")
    inserted = shown.rows()
    assert inserted is not None and inserted["id"].to_pylist() == [1, 2] and shown.files.num_rows == 1


def test_a_commits_branch_is_that_of_its_last_snapshot(catalog: icecore.Catalog) -> None:
    """Not another ref that it moved, as a tag."""
    table = make_table(catalog)
    table.append(rows(1))
    first = table.snapshots()[0].snapshot_id
    with table.transaction() as both:
        both.append(rows(2))
        both.manage_snapshots().create_tag(first, "v1").create_branch(first, "old").commit()
    assert catalog.log()["branch"].to_pylist()[-1] == "main"
    table.append(rows(3), branch="old")
    assert catalog.log()["branch"].to_pylist()[-1] == "old"


def test_snapshots_refs_positions_and_times_are_compared(catalog: icecore.Catalog) -> None:
    """Across branches, with what was there before and again no difference; what is expired is told."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    first = table.current_snapshot()
    assert first is not None
    start = catalog.position
    table.manage_snapshots().create_branch(first.snapshot_id, "b").commit()
    table.append(rows(3))
    table.append(rows(4), branch="b")
    table.delete("id = 1")

    def found(difference: object) -> list[tuple[str, int]]:
        return sorted((r["_change_type"], r["id"]) for r in difference.rows().to_pylist())  # type: ignore[attr-defined]

    assert found(table.diff("b", "main")) == [("DELETE", 1), ("DELETE", 4), ("INSERT", 3)]
    assert found(table.diff(first.snapshot_id)) == [("DELETE", 1), ("INSERT", 3)]
    assert found(table.diff(first.snapshot_id, "b", row_filter="id > 5")) == []
    assert found(table.diff(None, first.snapshot_id)) == [("INSERT", 1), ("INSERT", 2)]
    assert found(catalog.diff_table("ns.t", start)) == [("DELETE", 1), ("INSERT", 3)]
    assert found(catalog.diff_table("ns.t", 0, start)) == [("INSERT", 1), ("INSERT", 2)]
    assert found(catalog.diff_table("ns.t", start, branch="b")) == [("INSERT", 1), ("INSERT", 2), ("INSERT", 4)]
    files = table.diff("main", "b").files()
    assert sorted(files["change"].to_pylist()) == ["added", "added", "removed", "removed"]
    assert not catalog.diff("1970-01-02", "1970-01-03").objects
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    with pytest.raises(NoSuchSnapshotError, match=f"of position {start}, is gone, expired at position [0-9]+ by "):
        catalog.diff_table("ns.t", start)
    with pytest.raises(NoSuchSnapshotError):
        table.refresh().diff("nothing")
    with pytest.raises(ValidationError, match="can't compare"):
        catalog.diff_table("ns.t", 3, 2)
    with pytest.raises(NoSuchTableError):
        catalog.diff_table("ns.nothing", 1)


def test_a_name_is_of_the_table_that_had_it_last_though_it_had_it_first_too(catalog: icecore.Catalog) -> None:
    for other in ("ns.first", "ns.second"):
        make_table(catalog)
        catalog.rename_table("ns.t", other)
    catalog.rename_table("ns.first", "ns.t")
    catalog.drop_table("ns.t")
    renamed = ["table.renamed", "table.renamed"]
    assert catalog.log("ns.t")["kind"].to_pylist() == ["table.created", *renamed, "table.dropped"]


def test_the_log_of_what_was_renamed_and_dropped(catalog: icecore.Catalog) -> None:
    """By the last name, whole; followed through all tables that had the name; the newest first where asked."""
    make_table(catalog).append(rows(1))
    catalog.rename_table("ns.t", "ns.u")
    catalog.drop_table("ns.u")
    make_table(catalog)
    gone = catalog.log("ns.u")["kind"].to_pylist()
    assert gone == ["table.created", "table.committed", "table.renamed", "table.dropped"]
    assert catalog.log("ns.t")["kind"].to_pylist() == ["table.created"]
    assert catalog.log("ns.t", follow=True)["kind"].to_pylist() == [*gone, "table.created"]
    newest = catalog.log("ns.t", follow=True, limit=2, newest_first=True)
    assert catalog.log(after=catalog.position, newest_first=True).num_rows == 0
    assert newest["kind"].to_pylist() == ["table.created", "table.dropped"]
    with pytest.raises(NoSuchTableError):
        catalog.log("ns.nothing")


def test_the_end_of_a_log_is_read_from_its_end(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest events are those at the end of all, whatever they are chosen by; a long log is not read for them."""
    for i in range(40):
        catalog.create_namespace(f"n{i}")
    make_table(catalog).set_properties({"a": "1"}, author="ann")
    catalog.load_table("ns.t").set_properties({"a": "2"})
    ways: list[dict[str, Any]] = [{}, {"actor": "ann"}, {"kind": "namespace.created"}, {"identifier": "ns.t"}]
    for chosen in (*ways, {"after": 20, "up_to": 30}):
        whole = catalog.log(**chosen).to_pylist()
        for limit in (1, 2, 7, 100):
            assert catalog.log(**chosen, limit=limit).to_pylist() == whole[-limit:]
    assert catalog.log(limit=0).num_rows == 0
    assert catalog.log(after=-1, limit=2**70) == catalog.log(up_to=2**70)
    assert catalog.log(after=2**70).num_rows == catalog.log(up_to=-1, limit=1).num_rows == 0
    with pytest.raises(ValidationError, match="limit must not be negative"):
        catalog.log(limit=-1)
    read: list[Event] = []
    found = EventReader.filtered_events

    def counting(self: EventReader, **chosen: Any) -> Iterator[Event]:
        for event in found(self, **chosen):
            read.append(event)
            yield event

    monkeypatch.setattr(EventReader, "filtered_events", counting)
    assert (catalog.log(limit=3).num_rows, len(read)) == (3, 3)


def test_a_graph_has_a_lane_for_each_line() -> None:
    nodes = [(5, 3, "main"), (4, 2, "b"), (3, 2, "three"), (2, 1, "two"), (1, None, "one")]
    assert list(graph_lines(nodes)) == ["*  main", "| *  b", "* |  three", "* |  two", "|/", "*  one"]
    apart = [(3, None, "three"), (2, 1, "two"), (1, None, "one")]
    assert list(graph_lines(apart)) == ["*  three", "*  two", "*  one"]


def test_the_difference_is_of_the_table_that_had_the_name_then(catalog: icecore.Catalog) -> None:
    """A name may be another table's by now; one that it has only now is found too."""
    table = make_table(catalog, "orders")
    table.append(rows(1))
    before = catalog.position
    table.append(rows(2))
    after = catalog.position
    catalog.rename_table("ns.orders", "ns.sales")
    make_table(catalog, "orders").append(rows(9))
    catalog.drop_table("ns.orders")
    for name in ("ns.orders", "ns.sales"):
        assert catalog.diff_table(name, before, after).rows().to_pylist()[0]["id"] == 2
    assert catalog.diff_table("ns.orders", after).rows().num_rows == 0


def test_a_table_counts_as_without_rows_while_it_was_dropped(catalog: icecore.Catalog) -> None:
    """Its branches are not there either."""
    make_table(catalog).append(rows(1, 2))
    there = catalog.position
    catalog.drop_table("ns.t")
    gone = catalog.position
    catalog.undrop_table("ns.t")
    for start, end, change in ((there, gone, "DELETE"), (gone, gone + 1, "INSERT")):
        found = catalog.diff_table("ns.t", start, end)
        assert [(r["id"], r["_change_type"]) for r in found.rows().to_pylist()] == [(1, change), (2, change)]
        assert found.files().num_rows == 1
    catalog.load_table("ns.t").append(rows(3), branch="b")
    catalog.drop_table("ns.t")
    with pytest.raises(ValidationError, match="has no branch or tag 'b'"):
        catalog.diff_table("ns.t", gone, branch="b")


def test_a_branch_that_is_at_neither_position_is_no_branch_without_changes(catalog: icecore.Catalog) -> None:
    """A wrong name would be evidence that nobody changed a row; one that is at one of both is compared with nothing."""
    table = make_table(catalog)
    start = catalog.position
    table.append(rows(1), branch="audit")
    assert catalog.diff_table("ns.t", start, branch="audit").rows().num_rows == 1
    assert catalog.diff_table("ns.t", start).rows().num_rows == 0
    with pytest.raises(ValidationError, match=rf"ns\.t has no branch or tag 'adit' at position {start} or {start + 1}"):
        catalog.diff_table("ns.t", start, branch="adit")
