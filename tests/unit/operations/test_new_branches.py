"""Branches that commits make: of main, or of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, pyiceberg_catalog, rows

import icecore
from icecore.engine.commit import pending_changes
from icecore.engine.commit.pending_changes import changed
from icecore.engine.errors import NoSuchSnapshotError, ValidationError


@pytest.mark.parametrize("name", ["", 5, None, b"x"])
def test_a_branch_has_a_name(catalog: icecore.Catalog, name: Any) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    with pytest.raises(ValidationError, match="a branch is named by text"):
        table.append(rows(2), branch=name)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_first_rows_of_a_table_go_to_any_branch(catalog: icecore.Catalog, version: int) -> None:
    """C1: as in Java the branch begins with nothing, and main stays without a snapshot until it gets its own."""
    table = make_table(catalog, format_version=version, partition_spec=["name"])
    table.delete("id = 1", branch="dev")
    assert table.metadata.refs == {}
    table.append(rows(1), branch="dev")
    table.upsert(rows(1, 2), ["id"], branch="dev")
    assert list(table.metadata.refs) == ["dev"] and (ids_of(table), ids_of(table, ref="dev")) == ([], [1, 2])
    table.dynamic_partition_overwrite(rows(3), branch="other")
    table.append(rows(4))
    table.delete("id = 2", branch="dev")
    assert [ids_of(table, ref=r) for r in ("main", "dev", "other")] == [[4], [1], [3]]
    assert catalog.verify(deep=True).ok
    catalog.rebuild()
    assert catalog.verify(deep=True).ok
    peer = pyiceberg_catalog(catalog.path)
    found = peer.load_table("ns.t")
    assert found.scan(snapshot_id=found.refs()["dev"].snapshot_id).to_arrow()["id"].to_pylist() == [1]
    peer.close()


def test_a_first_branch_starts_from_a_main_that_comes_meanwhile(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """What another process commits first is its beginning, as of any branch that is made; a second one goes on."""
    table = make_table(catalog)
    with table.transaction() as change:
        change.append(rows(2), branch="dev")
        open_again().load_table("ns.t").append(rows(1))
    assert (ids_of(table), ids_of(table, ref="dev")) == ([1], [1, 2])
    second = make_table(catalog, "second")
    with second.transaction() as change:
        change.append(rows(2), branch="dev")
        open_again().load_table("ns.second").append(rows(1), branch="dev")
    assert (ids_of(second), ids_of(second, ref="dev")) == ([], [1, 2])


def test_a_branch_that_nothing_is_committed_to_is_not_made(catalog: icecore.Catalog) -> None:
    """Of an empty table there is none to compact, or to read."""
    table = make_table(catalog)
    for ask in (lambda: table.rewrite_data_files(branch="dev"), lambda: table.scan(ref="dev").to_arrow()):
        with pytest.raises(NoSuchSnapshotError, match="no branch or tag 'dev'"):
            ask()


OPERATIONS: dict[str, Callable[..., object]] = {
    "append": lambda t, **o: t.append(rows(9), **o),
    "delete": lambda t, **o: t.delete("id = 1", **o),
    "upsert": lambda t, **o: t.upsert(rows(2, 3), ["id"], **o),
    "overwrite": lambda t, **o: t.overwrite(rows(7), "id = 2", isolation_level="serializable", **o),
    "dynamic_partition_overwrite": lambda t, **o: t.dynamic_partition_overwrite(rows(3), **o),
    "row_delta": lambda t, **o: t.row_delta(conflict_filter="id = 1", **o),
    "rewrite_manifests": lambda t, **o: t.rewrite_manifests(**o),
    "rewrite_data_files": lambda t, **o: t.rewrite_data_files(options={"rewrite-all": "true"}, **o),
    "rewrite_position_delete_files": lambda t, **o: t.rewrite_position_delete_files(**o),
    "remove_dangling_deletes": lambda t, **o: t.remove_dangling_deletes(**o),
}
AFTER = {"append": [1, 2, 9], "delete": [2], "upsert": [1, 2, 3], "overwrite": [1, 7]}
AFTER["dynamic_partition_overwrite"] = [1, 2, 3]
REFS: dict[str, Callable[[Any, int], Any]] = {
    "create": lambda refs, head: refs.create_branch(head, "create"),
    "replace": lambda refs, head: refs.replace_branch("old", head).rename_branch("old", "replace"),
    "rename": lambda refs, head: refs.rename_branch("main_too", "rename"),
    "fast-forward": lambda refs, head: refs.fast_forward("fast-forward", "main"),
}


def with_old_branches(catalog: icecore.Catalog) -> icecore.Table:
    """A table with rows 1 and 2 in main, and branches at both of its snapshots."""
    table = make_table(catalog, partition_spec=["name"], properties={"write.wap.enabled": "true"})
    table.append(rows(1))
    first = table.current_snapshot()
    table.append(rows(2))
    head = table.current_snapshot()
    assert first is not None and head is not None
    table.manage_snapshots().create_branch(first.snapshot_id, "old").create_branch(
        head.snapshot_id, "main_too"
    ).commit()
    return table


@pytest.mark.parametrize("operation", OPERATIONS)
def test_any_operation_goes_to_a_branch_that_its_commit_makes(catalog: icecore.Catalog, operation: str) -> None:
    """By `wap.branch` it is made from main; else it is where the earlier changes of the transaction left it."""
    table = with_old_branches(catalog)
    head = table.current_snapshot()
    assert head is not None
    OPERATIONS[operation](table, snapshot_properties={"wap.branch": "audit"})
    for way, move in REFS.items():
        with table.transaction() as change:
            move(change.manage_snapshots(), head.snapshot_id).commit()
            OPERATIONS[operation](change, branch=way)
    found = [ids_of(table, ref=ref) for ref in ("main", "audit", *REFS)]
    assert found == [[1, 2], *[AFTER.get(operation, [1, 2])] * 5]


def test_a_change_after_a_rollback_in_its_transaction_is_of_the_rows_there(catalog: icecore.Catalog) -> None:
    table = with_old_branches(catalog)
    with table.transaction() as change:
        change.manage_snapshots().set_current_snapshot(ref_name="old").commit()
        change.upsert(rows(2, 3), ["id"])
    assert ids_of(table) == [1, 2, 3]
    assert catalog.verify().ok


def test_a_long_transaction_makes_each_change_once_as_it_is_planned(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not all before each operation again."""
    table = with_old_branches(catalog)
    made = 0

    def counted(*given: Any) -> Any:
        nonlocal made
        made += 1
        return changed(*given)

    with table.transaction() as change:
        for number in range(10):
            change.set_properties({"number": str(number)})
            change.append(rows(number), branch="old")
        monkeypatch.setattr(pending_changes, "changed", counted)
    assert made == 10
    assert len(ids_of(table, ref="old")) == 11
