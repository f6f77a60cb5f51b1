"""Restore and undo: what is refused and why, what they are about, and what other engines read after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, make_table, peer_ids, rows, store_of

import icecore
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.errors import (
    CommitConflictError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ReadOnlyError,
    TableAlreadyExistsError,
    ValidationError,
)
from icecore.engine.joint_commit import joint_restore, joint_revert
from icecore.engine.joint_commit.joint_commit import commit_jointly


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_other_engines_read_what_was_restored(catalog: icecore.Catalog, warehouse: Path, format_version: int) -> None:
    """A dropped and renamed table is back, at its old snapshot and schema; new rows go on from there (RL1)."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1, 2))
    then = catalog.position
    table.append(rows(3))
    with table.update_schema() as schema:
        schema.rename_column("name", "title")
    catalog.rename_table("ns.t", "ns.other")
    catalog.drop_table("ns.other")
    assert catalog.restore(then, table="ns.t", message="too early") == catalog.position
    back = catalog.load_table("ns.t")
    assert back.schema().has_name("name") and ids_of(back) == [1, 2] == peer_ids(warehouse)
    back.append(rows(9))
    assert ids_of(back) == [1, 2, 9] == peer_ids(warehouse)
    assert catalog.log(limit=2)["message"].to_pylist()[0] == "too early"
    assert catalog.verify().ok


@pytest.mark.parametrize("mode", ["position", "vector"])
def test_other_engines_read_rows_that_came_back(catalog: icecore.Catalog, warehouse: Path, mode: str) -> None:
    """The delete file is gone, the row is back, and the snapshot is an overwrite (L4)."""
    merge = {"write.delete.mode": "merge-on-read"}
    table = make_table(catalog, format_version=2 if mode == "position" else 3, properties=merge)
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    catalog.revert(catalog.position)
    assert ids_of(table.refresh()) == [1, 2, 3] == peer_ids(warehouse)
    head = table.current_snapshot()
    assert head is not None and head.summary is not None
    found = {k: head.summary[k] for k in ("operation", "removed-delete-files", "total-delete-files")}
    assert found == {"operation": "overwrite", "removed-delete-files": "1", "total-delete-files": "0"}
    catalog.revert(catalog.position)
    assert ids_of(table.refresh()) == [1, 3] and catalog.verify().ok
    if mode == "position":
        assert peer_ids(warehouse) == [1, 3]


def test_a_compacted_file_is_in_the_way_of_its_deleted_rows(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    deleted = catalog.position
    table.rewrite_data_files(options={"rewrite-all": "true"})
    with pytest.raises(CommitConflictError, match=rf"position {deleted} can't be reverted.*left main since"):
        catalog.revert(deleted)


def test_an_expired_snapshot_is_told_with_who_expired_it(catalog: icecore.Catalog) -> None:
    """Of all tables none is changed then; a dry run says so too."""
    table, other = make_table(catalog), make_table(catalog, "other")
    table.append(rows(1))
    first = table.current_snapshot()
    then = catalog.position
    table.append(rows(2))
    other.append(rows(3))
    assert first is not None
    expiry = table.maintenance.expire_snapshots(author="cron", message="every week")
    expiry.by_id(first.snapshot_id).commit()
    end = catalog.position
    expected = rf"snapshot {first.snapshot_id} of ref 'main' of ns\.t is gone, expired at position \d+ by cron"
    with pytest.raises(CommitConflictError, match=expected + r" \('every week'\)"):
        catalog.restore(then)
    foretold = catalog.restore(then, dry_run=True)
    assert isinstance(foretold, CatalogDryRun) and "expired at position" in foretold.conflicts[0]
    assert catalog.position == end and ids_of(other.refresh()) == [3]
    catalog.restore(then, table="ns.other")
    assert ids_of(other.refresh()) == []


def test_a_purged_table_does_not_come_back(catalog: icecore.Catalog) -> None:
    make_table(catalog).append(rows(1))
    then = catalog.position
    catalog.drop_table("ns.t")
    catalog.purge_table("ns.t", author="ann", message="of no use")
    with pytest.raises(ValidationError, match=r"was purged at position \d+ by ann \('of no use'\)"):
        catalog.restore(then)


def test_it_is_about_a_name_a_namespace_or_all(catalog: icecore.Catalog) -> None:
    """What is not asked for stays, also where it is in the way."""
    table = make_table(catalog)
    catalog.create_namespace("b", {"owner": "ann"})
    kept = catalog.create_table("b.kept", rows(1).schema)
    catalog.create_namespace("b.inner")
    inner = catalog.create_table("b.inner.kept", rows(1).schema)
    then = catalog.position
    for changed in (table, kept, inner):
        changed.append(rows(1))
    catalog.rename_table("b.kept", "ns.moved")
    catalog.create_table("b.made", rows(1).schema)
    catalog.update_namespace_properties("b", updates={"owner": "bob"})
    with pytest.raises(NoSuchTableError, match=r"no table or view 'b\.made' at position"):
        catalog.restore(then, table="b.made")
    with pytest.raises(NoSuchNamespaceError):
        catalog.restore(then, namespace="c")
    with pytest.raises(ValidationError, match="a table or a namespace"):
        catalog.restore(then, table="b.kept", namespace="b")
    for wrong in (-1, catalog.position + 1):
        with pytest.raises(ValidationError, match="no position"):
            catalog.restore(wrong)
    catalog.restore(then, namespace="b")
    assert catalog.list_tables("b") == [("b", "kept")] and catalog.list_tables("ns") == [("ns", "t")]
    assert ids_of(table.refresh()) == [1] and ids_of(inner.refresh()) == []
    assert ids_of(catalog.load_table("b.kept")) == [] and catalog.load_namespace_properties("b") == {"owner": "ann"}
    catalog.drop_table("ns.t")
    make_table(catalog)
    with pytest.raises(
        TableAlreadyExistsError, match=r"already exists: ns\.t, another one than at .* rename or drop it"
    ):
        catalog.restore(then, table="ns.t")
    catalog.rename_table("ns.t", "ns.newer")
    catalog.restore(then, table="ns.t")
    assert catalog.list_tables("ns") == [("ns", "newer"), ("ns", "t")]
    time = store_of(catalog).event_at(then).recorded_at_ms
    moment = f"{time // 1000}"
    with pytest.raises(ValidationError, match="must be milliseconds"):
        catalog.restore(moment[:-1] + "x")
    assert catalog.verify().ok


def test_undo_is_of_the_author_and_goes_back_one_by_one(catalog: icecore.Catalog) -> None:
    """Reverts and what they undid are passed over, of a joint commit all is undone; others' commits stay."""
    table, other = make_table(catalog), make_table(catalog, "other")
    table.append(rows(1), author="ann")
    table.append(rows(2), author="bob")
    with catalog.transaction(author="ann") as both:
        both.table("ns.t").append(rows(3))
        both.table("ns.other").append(rows(4))
    foretold = catalog.undo(author="ann", dry_run=True)
    assert isinstance(foretold, CatalogDryRun) and [p.identifier[1] for p in foretold.parts] == ["t", "other"]
    catalog.undo("ns.other", author="ann")
    assert (ids_of(table.refresh()), ids_of(other.refresh())) == ([1, 2], [])
    redo = catalog.position
    catalog.undo(author="ann")
    assert ids_of(table.refresh()) == [2]
    with pytest.raises(ValidationError, match="no commit by 'ann' that could be undone"):
        catalog.undo("ns.t", author="ann")
    catalog.revert(redo - 1, through=redo, author="ann")
    assert (ids_of(table.refresh()), ids_of(other.refresh())) == ([2, 3], [4])
    catalog.undo("ns.t", author="bob")
    assert ids_of(table.refresh()) == [3]
    for nobody in ("nobody", ""):
        with pytest.raises(ValidationError, match=f"no commit by '{nobody}'"):
            catalog.undo(actor=nobody)


def test_a_range_is_undone_by_its_net_change(catalog: icecore.Catalog) -> None:
    """What came and went within it is no matter, what came after it stays; properties are those of before."""
    table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2))
    start = catalog.position
    table.append(rows(3))
    table.set_properties({"a": "1"})
    table.delete("id = 2")
    table.rewrite_data_files(options={"rewrite-all": "true"})
    catalog.rename_table("ns.t", "ns.u")
    end = catalog.position
    table.append(rows(4))
    catalog.revert(start + 1, through=end)
    table = catalog.load_table("ns.t")
    assert ids_of(table) == [1, 2, 4] and "a" not in table.properties
    with pytest.raises(CommitConflictError, match=f"positions {start + 1} to {end - 1} can't be reverted"):
        catalog.revert(start + 1, through=end)
    with pytest.raises(ValidationError, match="can't revert positions 3 to 2"):
        catalog.revert(3, through=2)
    assert catalog.verify().ok


def test_a_table_that_a_range_made_stays_where_it_was_changed_since(catalog: icecore.Catalog) -> None:
    start = catalog.position
    table = make_table(catalog)
    table.append(rows(1))
    end = catalog.position
    table.append(rows(2))
    with pytest.raises(CommitConflictError, match=rf"ns\.t was changed since.*position {end + 1}"):
        catalog.revert(start + 1, through=end)
    assert ids_of(table.refresh()) == [1, 2]


def test_namespaces_that_a_range_changed_stay_where_they_were_changed_since(catalog: icecore.Catalog) -> None:
    catalog.create_namespace("a", {"k": "1"})
    catalog.update_namespace_properties("a", updates={"k": "2"})
    first = catalog.position
    catalog.create_namespace("b")
    catalog.update_namespace_properties("a", updates={"k": "3"})
    with pytest.raises(CommitConflictError, match=r"the properties \['k'\] of a were set again"):
        catalog.revert(first, through=first + 1)
    catalog.update_namespace_properties("a", updates={"k": "2"})
    catalog.update_namespace_properties("b", updates={"k": "4"})
    with pytest.raises(CommitConflictError, match="the namespace b was changed since"):
        catalog.revert(first, through=first + 1)
    assert [catalog.load_namespace_properties(name) for name in ("a", "b")] == [{"k": "2"}, {"k": "4"}]


def test_properties_that_are_set_while_a_revert_is_under_way_stay(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_namespace("a", {"k": "1"})
    catalog.update_namespace_properties("a", updates={"k": "2"})
    changed = catalog.position

    def late(*arguments: Any) -> Any:
        catalog.update_namespace_properties("a", updates={"k": "3"})
        return commit_jointly(*arguments)

    monkeypatch.setattr(joint_revert, "commit_jointly", late)
    with pytest.raises(CommitConflictError, match="the namespace a was changed since"):
        catalog.revert(changed)
    assert catalog.load_namespace_properties("a") == {"k": "3"}


def test_a_commit_to_several_tables_that_comes_while_all_is_restored_is_not_half_undone(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a row that it moved would be in both tables: only one of them was to be set back before it came."""
    one, other = make_table(catalog, "one"), make_table(catalog, "other")
    one.append(rows(1, 2))
    then, late = catalog.position, list[bool]()
    one.append(rows(3))

    def after_a_move(*arguments: Any) -> Any:
        if not late:
            late.append(True)
            with catalog.transaction() as changes:
                changes.table("ns.one").delete("id = 1")
                changes.table("ns.other").append(rows(1))
                changes.create_table("ns.new", SCHEMA)
        return commit_jointly(*arguments)

    monkeypatch.setattr(joint_restore, "commit_jointly", after_a_move)
    catalog.restore(then)
    assert (ids_of(one.refresh()), ids_of(other.refresh())) == ([1, 2], [])
    assert not catalog.table_exists("ns.new") and catalog.verify().ok


def test_what_was_changed_again_of_a_view_stays(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS a")
    view.set_properties({"k": "1", "other": "1"})
    view.set_properties({"k": "2"})
    with pytest.raises(CommitConflictError, match=r"the properties \['k'\] were set again"):
        catalog.revert(catalog.position - 1)
    view.replace("SELECT 2 AS a")
    view.replace("SELECT 3 AS a")
    with pytest.raises(CommitConflictError, match="another version is the current one"):
        catalog.revert(catalog.position - 1)
    view.refresh()
    assert view.properties == {"k": "2", "other": "1"} and view.to_arrow().to_pydict() == {"a": [3]}


def test_a_range_in_which_a_branch_was_set_to_another_snapshot_is_not_undone(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    first, start = table.snapshots()[-1].snapshot_id, catalog.position
    table.append(rows(2))
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.refresh().append(rows(3))
    with pytest.raises(ValidationError, match=f"main was set to another snapshot at position {start + 2}"):
        catalog.revert(start + 1, through=start + 3)
    assert ids_of(table.refresh()) == [1, 3]


@pytest.mark.parametrize("more", [0, 1])
def test_a_revert_of_what_is_as_before_is_refused_and_foretold_so(catalog: icecore.Catalog, more: int) -> None:
    table = make_table(catalog, properties={"a": "1"})
    table.set_properties({"a": "2"})
    first = catalog.position
    table.set_properties({"a": "1"})
    foretold = catalog.revert(first, through=first + more, dry_run=True)
    with pytest.raises(CommitConflictError, match="nothing of it is left to undo") as refused:
        catalog.revert(first, through=first + more)
    assert isinstance(foretold, CatalogDryRun) and foretold.conflicts == (str(refused.value),)


def test_a_catalog_that_is_only_read_undoes_nothing(catalog: icecore.Catalog, warehouse: Path) -> None:
    make_table(catalog)
    with icecore.open(warehouse, read_only=True) as reader:
        with pytest.raises(ReadOnlyError):
            reader.restore(1)
        with pytest.raises(ReadOnlyError):
            reader.undo()
        with pytest.raises(ReadOnlyError):
            reader.revert(1)


@pytest.mark.parametrize("how", ["undo", "restore", "revert"])
def test_a_namespace_that_those_inside_of_it_implied_was_created_later(catalog: icecore.Catalog, how: str) -> None:
    """It goes back to being implied; the one inside of it stays."""
    catalog.create_namespace("a.x")
    implied = catalog.position
    catalog.create_namespace("a", {"k": "v"})
    if how == "undo":
        catalog.undo()
    elif how == "restore":
        catalog.restore(implied)
    else:
        catalog.update_namespace_properties("a", ["k"], {})
        catalog.revert(implied + 1, through=implied + 2)
    assert catalog.load_namespace_properties("a") == {} and catalog.list_namespaces("a") == [("a", "x")]
    catalog.create_namespace("a")
    assert catalog.verify().ok


def test_a_version_of_a_view_comes_back_whose_id_another_one_has(catalog: icecore.Catalog) -> None:
    """The ids of versions that a short history lets go are given again; each way back finds the definition of then."""
    view = catalog.create_view("ns.v", "SELECT 1 AS a", properties={"version.history.num-entries": "3"})
    then = view.replace("SELECT 2 AS a").current_version()
    position = catalog.position
    view.set_current_version(1).set_properties({"version.history.num-entries": "1"})
    assert view.replace("SELECT 3 AS a").current_version().version_id == then.version_id
    end = catalog.position
    catalog.restore(position, table="ns.v")
    assert view.refresh().to_arrow().to_pydict() == {"a": [2]} and view.schema().find_field("a")
    assert view.history()[-1].timestamp_ms == catalog.log(limit=1)["recorded_at"][0].value
    assert catalog.restore(position, table="ns.v") == catalog.position == end + 1
    catalog.revert(end + 1)
    assert view.refresh().to_arrow().to_pydict() == {"a": [3]}
    catalog.revert(position + 1, through=end)
    assert view.refresh().to_arrow().to_pydict() == {"a": [2]}
    assert catalog.verify().ok


def test_the_way_back_of_a_view_may_drop_dialects_that_came_since(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS a")
    position = catalog.position
    both = {"spark": "SELECT 2 a"}
    view.replace("SELECT 2 AS a", representations=both)
    catalog.restore(position, dry_run=True)
    catalog.restore(position)
    assert view.refresh().current_version().dialects == {"duckdb"}
    view.replace("SELECT 2 AS a", representations=both)
    catalog.revert(catalog.position)
    assert view.refresh().current_version().dialects == {"duckdb"}
    catalog.rebuild()
    assert catalog.verify().ok
