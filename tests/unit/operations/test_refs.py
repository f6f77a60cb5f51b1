"""Refs: cherry-pick, fast-forward, replacing, renaming, retention, and write-audit-publish."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pyarrow as pa
import pytest
from core_tables import ids_of, make_table, peer_ids, pyiceberg_catalog, repository_of, rows

import icecore
from icecore.engine.errors import CommitConflictError, NoSuchSnapshotError, ValidationError
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.inspect.changes_since import snapshots_since

WAP = {"write.wap.enabled": "true"}
PARTS = pa.schema([("id", pa.int64()), ("kind", pa.string())])


def head(table: icecore.Table) -> Snapshot:
    found = table.refresh().current_snapshot()
    assert found is not None
    return found


def parts(*given: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"id": i, "kind": k} for i, k in given]


def stage(table: icecore.Table, wap_id: str, *ids: int) -> Snapshot:
    table.append(rows(*ids), snapshot_properties={"wap.id": wap_id})
    return table.snapshots()[-1]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_staged_append_is_published(catalog: icecore.Catalog, version: int) -> None:
    """L5: staged rows are in no branch until published; then a snapshot of its own says where it is from."""
    table = make_table(catalog, properties=WAP, format_version=version)
    table.append(rows(1))
    staged = stage(table, "w1", 2)
    assert ids_of(table) == [1]
    assert ids_of(table, snapshot_id=staged.snapshot_id) == [1, 2]
    table.append(rows(3))
    table.manage_snapshots().publish("w1").commit()
    summary = head(table).summary or {}
    assert summary["source-snapshot-id"] == str(staged.snapshot_id)
    assert summary["published-wap-id"] == "w1"
    assert summary["operation"] == "append"
    assert summary["total-records"] == "3"
    assert ids_of(table) == [1, 2, 3]
    if version < 3:
        assert peer_ids(catalog.path) == [1, 2, 3]
    else:
        ids = table.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist()
        assert len(set(ids)) == 3
    with pytest.raises(ValidationError, match="published already"):
        table.manage_snapshots().publish("w1").commit()
    assert catalog.verify().problems == ()


def test_publishing_fast_forwards_where_it_can(catalog: icecore.Catalog) -> None:
    """The staged snapshot itself becomes current, on an empty table too, and can't be published again."""
    table = make_table(catalog, properties=WAP)
    first = stage(table, "w1", 1)
    assert ids_of(table) == []
    table.manage_snapshots().publish("w1").commit()
    assert head(table).snapshot_id == first.snapshot_id
    second = stage(table, "w2", 2)
    table.manage_snapshots().cherry_pick(second.snapshot_id).commit()
    assert head(table).snapshot_id == second.snapshot_id
    assert len(table.snapshots()) == 2
    for again in (first, second):
        with pytest.raises(ValidationError, match=r"published already"):
            table.manage_snapshots().cherry_pick(again.snapshot_id).commit()
    stage(table, "w1", 9)
    with pytest.raises(ValidationError, match="several"):
        table.manage_snapshots().publish("w1").commit()
    with pytest.raises(NoSuchSnapshotError, match="nope"):
        table.manage_snapshots().publish("nope").commit()


def test_without_the_property_nothing_is_staged(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    stage(table, "w1", 1)
    assert ids_of(table) == [1]


def test_cherry_pick_from_a_branch(catalog: icecore.Catalog) -> None:
    """An append of a branch is picked once; what is on main already, and a delete, are refused."""
    table = make_table(catalog)
    table.append(rows(1))
    table.manage_snapshots().create_branch(head(table).snapshot_id, "dev").commit()
    table.append(rows(2), branch="dev")
    picked = table.snapshots()[-1]
    table.delete("id = 1", branch="dev")
    deleting = table.snapshots()[-1]
    table.append(rows(3))
    table.manage_snapshots().cherry_pick(picked.snapshot_id).commit()
    assert ids_of(table) == [1, 2, 3]
    with pytest.raises(ValidationError, match="it was, as snapshot"):
        table.manage_snapshots().cherry_pick(picked.snapshot_id).commit()
    with pytest.raises(ValidationError, match="ancestor of main already"):
        table.manage_snapshots().cherry_pick(table.snapshots()[0].snapshot_id).commit()
    with pytest.raises(ValidationError, match="no append"):
        table.manage_snapshots().cherry_pick(deleting.snapshot_id).commit()
    with pytest.raises(NoSuchSnapshotError):
        table.manage_snapshots().cherry_pick(42).commit()


@pytest.mark.parametrize("version", [2, 3])
def test_a_pick_whose_first_pick_has_expired_is_refused(catalog: icecore.Catalog, version: int) -> None:
    """The snapshot that told of the first pick is gone, and so may be its file: its rows would be in main twice."""
    table = make_table(catalog, format_version=version, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1))
    table.manage_snapshots().create_branch(head(table).snapshot_id, "dev").commit()
    table.append(rows(2, 3), branch="dev")
    source = table.snapshots()[-1].snapshot_id
    table.append(rows(4))
    table.manage_snapshots().cherry_pick(source).commit()
    picked = head(table).snapshot_id
    table.delete("id = 2")
    table.maintenance.expire_snapshots().by_ids([picked]).commit()
    for again in (False, True):
        if again:
            table.rewrite_data_files(options={"rewrite-all": "true"})
            catalog.archive(before=catalog.position)
        with pytest.raises(ValidationError, match=f"it was, as snapshot {picked}"):
            table.manage_snapshots().cherry_pick(source).commit()
        assert ids_of(table) == [1, 3, 4]
    table.manage_snapshots().create_branch(head(table).snapshot_id, "forward").commit()
    table.append(rows(5), branch="forward")
    forward = table.snapshots()[-1].snapshot_id
    table.manage_snapshots().fast_forward("main", "forward").commit()
    table.append(rows(6))
    table.rewrite_data_files(options={"rewrite-all": "true"})
    parent = table.snapshots()[-2].snapshot_id
    table.maintenance.expire_snapshots().by_ids([parent]).commit()
    with pytest.raises(ValidationError, match="ancestor of main already"):
        table.manage_snapshots().cherry_pick(forward).commit()


@pytest.mark.parametrize("change", ["append", "overwrite"])
def test_a_transaction_stages_one_snapshot_under_a_name(catalog: icecore.Catalog, change: str) -> None:
    """Of two neither could be published by the name, and of those by their ids only one."""
    table = make_table(catalog, properties=WAP)
    table.append(rows(1))
    position, staged = catalog.position, {"wap.id": "w"}
    with pytest.raises(ValidationError, match=r"stages one snapshot under wap\.id 'w'"), table.transaction() as both:
        getattr(both, change)(rows(2), snapshot_properties=staged)
        both.append(rows(3), snapshot_properties=staged)
    assert catalog.position == position
    with table.transaction() as both:
        both.append(rows(2), snapshot_properties=staged)
        both.append(rows(3), snapshot_properties={"wap.id": "w2"})
    table.manage_snapshots().publish("w").commit()
    table.manage_snapshots().publish("w2").commit()
    assert ids_of(table) == [1, 2, 3]


def peer_expires(catalog: icecore.Catalog, snapshot_id: int) -> None:
    """PyIceberg, beside the log, takes the snapshot that it expires from the parents of others too."""
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        peer.load_table("ns.t").maintenance.expire_snapshots().by_id(snapshot_id).commit()


def test_a_pick_is_refused_where_another_engine_cut_the_history_off(catalog: icecore.Catalog) -> None:
    """The table's metadata does not say any more that the head was built on the picked snapshot: the log does."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    source = head(table).snapshot_id
    table.manage_snapshots().create_tag(source, "kept").commit()
    table.delete("id = 1")
    deleting = head(table).snapshot_id
    table.append(rows(3))
    peer_expires(catalog, deleting)
    assert head(table.refresh()).parent_snapshot_id is None
    with pytest.raises(ValidationError, match="ancestor of main already"):
        table.manage_snapshots().cherry_pick(source).commit()
    assert ids_of(table.refresh()) == [2, 3]


def test_changes_since_an_empty_table_are_not_told_where_another_engine_cut_them_off(catalog: icecore.Catalog) -> None:
    """One of them may have conflicted."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    first = table.snapshots()[0].snapshot_id
    assert len(snapshots_since(repository_of(catalog), table.state, None, head(table))) == 2
    peer_expires(catalog, first)
    with pytest.raises(CommitConflictError, match="its history was expired"):
        snapshots_since(repository_of(catalog), table.refresh().state, None, head(table))


def test_a_dry_run_of_a_pick_leaves_the_files(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties=WAP)
    table.append(rows(1))
    stage(table, "w1", 2)
    table.append(rows(3))
    with table.transaction(dry_run=True) as transaction:
        transaction.manage_snapshots().publish("w1").commit()
    assert transaction.outcome is not None
    assert transaction.outcome.totals["total-records"] == 3
    table.manage_snapshots().publish("w1").commit()
    assert ids_of(table) == [1, 2, 3]


@pytest.mark.parametrize("version", [2, 3])
def test_an_overwrite_of_partitions_is_picked(catalog: icecore.Catalog, version: int) -> None:
    """It takes the place of the same files, unless the partition was changed since."""
    table = catalog.create_table("ns.t", PARTS, partition_spec=["kind"], properties=WAP, format_version=version)
    table.append(parts((1, "a"), (2, "b")))
    table.dynamic_partition_overwrite(parts((3, "a")), snapshot_properties={"wap.id": "w1"})
    table.dynamic_partition_overwrite(parts((4, "b")), snapshot_properties={"wap.id": "w2"})
    table.append(parts((5, "b")))
    assert ids_of(table) == [1, 2, 5]
    table.manage_snapshots().publish("w1").commit()
    assert ids_of(table) == [2, 3, 5]
    assert head(table).operation == "overwrite"
    with pytest.raises(ValidationError, match="partition that it replaces"):
        table.manage_snapshots().publish("w2").commit()
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("since", ["delete by key", "delete by position", "append by another spec"])
def test_an_overwrite_of_partitions_is_not_picked_where_files_of_another_spec_came(
    catalog: icecore.Catalog, since: str
) -> None:
    """They may delete rows that it wrote again, from files of an older spec, or have rows that it would replace."""
    table = catalog.create_table("ns.t", PARTS, properties=WAP)
    table.append(parts((1, "a"), (2, "b"), (3, "c")))
    table.update_spec().add_field("kind").commit()
    table.dynamic_partition_overwrite(parts((4, "a")), snapshot_properties={"wap.id": "w"})
    if since == "delete by key":
        table.delete_keys(pa.table({"id": [2]}), ["id"])
    elif since == "delete by position":
        table.set_properties({"write.delete.mode": "merge-on-read"})
        table.delete("id = 2")
    else:
        table.update_spec().add_field("id").commit()
        table.append(parts((5, "a")))
    with pytest.raises(ValidationError, match="added files of another partition spec"):
        table.manage_snapshots().publish("w").commit()


@pytest.mark.parametrize("by", ["icecore", "pyiceberg"])
def test_an_overwrite_of_partitions_is_not_picked_where_history_expired(catalog: icecore.Catalog, by: str) -> None:
    """A snapshot that added files to its partition may be among those that are gone."""
    table = catalog.create_table("ns.t", PARTS, partition_spec=["kind"], properties=WAP)
    table.dynamic_partition_overwrite(parts((1, "a")), snapshot_properties={"wap.id": "w1"})
    table.append(parts((2, "a")))
    first = head(table).snapshot_id
    table.append(parts((3, "b")))
    if by == "icecore":
        table.maintenance.expire_snapshots().by_ids([first]).commit()
    else:
        peer_expires(catalog, first)
    with pytest.raises(ValidationError, match=f"have expired, as {first}"):
        table.manage_snapshots().publish("w1").commit()
    assert ids_of(table) == [2, 3]


def test_a_pick_is_seen_whatever_the_clock_of_its_source_said(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    table.manage_snapshots().create_branch(head(table).snapshot_id, "dev").commit()
    with monkeypatch.context() as ahead, contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        of_peer = peer.load_table("ns.t")
        now = time.time()
        ahead.setattr(time, "time", lambda: now + 3600)
        ahead.setattr(time, "time_ns", lambda: int((now + 3600) * 1e9))
        of_peer.append(rows(2), branch="dev")
    table.append(rows(3))
    source = table.refs()["dev"].snapshot_id
    table.manage_snapshots().cherry_pick(source).commit()
    picked = head(table).snapshot_id
    table.append(rows(4))
    table.rewrite_data_files(options={"rewrite-all": "true"})
    table.maintenance.expire_snapshots().by_ids([picked]).commit()
    with pytest.raises(ValidationError, match=f"it was, as snapshot {picked}"):
        table.manage_snapshots().cherry_pick(source).commit()


def test_a_pick_is_planned_again_on_a_moved_branch(catalog: icecore.Catalog) -> None:
    """A fast-forward that lost its race becomes a snapshot of its own; nothing is lost."""
    table = make_table(catalog, properties=WAP)
    table.append(rows(1))
    stage(table, "w1", 2)
    with table.transaction() as transaction:
        transaction.manage_snapshots().publish("w1").commit()
        catalog.load_table("ns.t").append(rows(3))
    assert ids_of(table) == [1, 2, 3]


@pytest.mark.parametrize("change", ["append", "delete", "upsert"])
def test_wap_branch(catalog: icecore.Catalog, change: str) -> None:
    """The commit goes to the branch, which is made from main; main stays until it is fast-forwarded."""
    table = make_table(catalog, properties=WAP)
    table.append(rows(1, 2))
    properties = {"wap.branch": "audit"}
    if change == "append":
        table.append(rows(3), snapshot_properties=properties)
    elif change == "delete":
        table.delete("id = 2", snapshot_properties=properties)
    else:
        table.upsert(rows(2, 3), ["id"], snapshot_properties=properties)
    expected = [1] if change == "delete" else [1, 2, 3]
    assert ids_of(table) == [1, 2]
    assert ids_of(table, ref="audit") == expected
    table.append(rows(9), snapshot_properties=properties)
    table.manage_snapshots().fast_forward("main", "audit").commit()
    assert ids_of(table) == [*expected, 9]
    with pytest.raises(ValidationError, match="can't go to 'other'"):
        table.append(rows(4), branch="other", snapshot_properties=properties)
    with pytest.raises(ValidationError, match="staged"):
        table.append(rows(4), snapshot_properties={**properties, "wap.id": "w"})


def test_fast_forward_and_replace(catalog: icecore.Catalog) -> None:
    """A branch goes forward to a descendant only; replacing it may go anywhere; retention stays."""
    table = make_table(catalog)
    table.append(rows(1))
    first = head(table).snapshot_id
    table.manage_snapshots().create_branch(first, "dev", max_ref_age_ms=7).create_tag(first, "v1").commit()
    table.append(rows(2), branch="dev")
    forward = table.refs()["dev"].snapshot_id
    with pytest.raises(ValidationError, match="fast-forward"):
        table.manage_snapshots().fast_forward("dev", "main").commit()
    table.manage_snapshots().fast_forward("main", "dev").fast_forward("made", "v1").commit()
    assert table.refs()["main"].snapshot_id == forward
    assert table.refs()["made"].snapshot_id == first
    table.manage_snapshots().replace_branch("dev", first).replace_tag("v1", forward).commit()
    assert (table.refs()["dev"].snapshot_id, table.refs()["dev"].max_ref_age_ms) == (first, 7)
    assert table.refs()["v1"].snapshot_id == forward
    table.manage_snapshots().replace_branch("dev", ref_name="v1").commit()
    assert table.refs()["dev"].snapshot_id == forward
    for wrong in (("v1", first), ("nope", first)):
        with pytest.raises(NoSuchSnapshotError):
            table.manage_snapshots().replace_branch(*wrong).commit()
    with pytest.raises(NoSuchSnapshotError):
        table.manage_snapshots().replace_tag("v1", 42).commit()


def test_rename_and_retention(catalog: icecore.Catalog) -> None:
    """R1: settings of age and number stay with the branch under its new name; PyIceberg reads them."""
    table = make_table(catalog)
    table.append(rows(1))
    snapshot_id = head(table).snapshot_id
    table.manage_snapshots().create_branch(snapshot_id, "dev").create_tag(snapshot_id, "v1").commit()
    with table.manage_snapshots() as manage:
        manage.set_min_snapshots_to_keep("dev", 3).set_max_snapshot_age_ms("dev", 4).set_max_ref_age_ms("v1", 5)
        manage.rename_branch("dev", "next").set_max_ref_age_ms("next", 6)
    assert "dev" not in table.refs()
    ref = table.refs()["next"]
    assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms) == (3, 4, 6)
    assert table.refs()["v1"].max_ref_age_ms == 5
    for name, new in (("main", "x"), ("next", "v1")):
        with pytest.raises(ValidationError):
            table.manage_snapshots().rename_branch(name, new).commit()
    with pytest.raises(NoSuchSnapshotError):
        table.manage_snapshots().set_min_snapshots_to_keep("v1", 1).commit()
    with pytest.raises(ValidationError, match="positive"):
        table.manage_snapshots().set_max_ref_age_ms("v1", 0).commit()


@pytest.mark.parametrize(
    "settings", [{"min_snapshots_to_keep": 2**31}, {"max_snapshot_age_ms": 2**63}, {"max_ref_age_ms": 2**63}], ids=str
)
def test_settings_that_java_could_not_read_are_refused(catalog: icecore.Catalog, settings: dict[str, Any]) -> None:
    """R1: Iceberg 1.11.0 reads a count as an int and ages as longs, and else refuses the whole table."""
    table = make_table(catalog)
    table.append(rows(1))
    with pytest.raises(ValidationError, match="must be positive and at most"):
        table.manage_snapshots().create_branch(head(table).snapshot_id, "dev", **settings).commit()
    at_most = {name: value - 1 for name, value in settings.items()}
    table.manage_snapshots().create_branch(head(table).snapshot_id, "dev", **at_most).commit()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_branch_that_is_not_there_starts_from_main(catalog: icecore.Catalog, version: int) -> None:
    """C1: a commit to a new branch makes it from main's head, as in Java; main stays, and the parent is main's."""
    table = make_table(catalog, format_version=version)
    table.append(rows(1, 2))
    before = head(table)
    table.append(rows(3), branch="dev")
    assert (ids_of(table), ids_of(table, ref="dev")) == ([1, 2], [1, 2, 3])
    made = table.metadata.snapshot_by_ref("dev")
    assert made is not None and made.parent_snapshot_id == before.snapshot_id == head(table).snapshot_id
    table.delete("id = 1", branch="dev")
    table.delete("id = 2", branch="other")
    assert [ids_of(table, ref=r) for r in ("main", "dev", "other")] == [[1, 2], [2, 3], [1]]
    with table.transaction() as change:
        change.append(rows(4), branch="third")
        change.append(rows(5), branch="third")
    assert ids_of(table, ref="third") == [1, 2, 4, 5]
    assert catalog.verify().ok
