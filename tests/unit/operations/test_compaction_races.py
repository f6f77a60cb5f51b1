"""Compactions that lose a race: what is written again, what holds as it is, and which ids rows keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, respec, rows
from lost_races import Open, count_calls, files_in, files_of
from pinned_files import storage_of

import icecore
from icecore.engine.maintenance import rewrite_data_files
from icecore.engine.operations.equality_deletes import write_key_deletes


def test_groups_that_nobody_touched_are_compacted_once(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a compaction that lost the race only the partition that changed is written again; its deletes hold."""
    table = make_table(
        catalog, format_version=3, partition_spec=["name"], properties={"write.delete.mode": "merge-on-read"}
    )
    for _ in range(2):
        table.append(rows(1, 2, 3))
    table.append(rows(1).set_column(0, "id", [[7]]))
    written = count_calls(monkeypatch, rewrite_data_files, "write_group")
    other = open_again().load_table("ns.t")

    def race() -> None:
        other.delete("id = 7")
        other.append(rows(1, 2, 3, 4))

    losing.append(race)
    result = table.rewrite_data_files(options={"rewrite-all": "true"})
    assert ids_of(table) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert len(written) == 4, "three partitions, one of them again"
    assert (result.rewritten_data_files, result.added_data_files) == (6, 3)
    assert files_in(table) == files_of(table)


@pytest.mark.parametrize(
    ("meanwhile", "holds"),
    {
        "append": True,
        "two appends": True,
        "rollback and append": True,
        "append, and delete of it": True,
        "append that merges manifests": False,
        "delete of a file": False,
        "delete by position": False,
        "delete by key": False,
        "compaction": False,
        "rewrite of manifests": False,
        "rollback": False,
    }.items(),
)
def test_a_compaction_outlives_appends(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], meanwhile: str, holds: bool
) -> None:
    """It needs no second attempt where others added data files, and has one where they did anything else to files."""
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    for start in (0, 10, 20):
        table.append(rows(start, start + 1))
    table.delete("id = 0")
    if "merges" in meanwhile:
        table.set_properties({"commit.manifest.min-count-to-merge": "2"})
    before = ids_of(table)
    snapshot_ids = [s.snapshot_id for s in table.snapshots()]
    other = open_again().load_table("ns.t")
    do: dict[str, list[Callable[[], Any]]] = {
        "two appends": [lambda: other.append(rows(40)), lambda: other.append(rows(41))],
        "rollback and append": [
            lambda: other.append(rows(50)),
            lambda: other.manage_snapshots().rollback_to_snapshot(snapshot_ids[-1]).commit(),
            lambda: other.append(rows(40)),
        ],
        "append, and delete of it": [lambda: other.append(rows(50, 51)), lambda: other.delete("id >= 50")],
        "delete of a file": [lambda: other.delete("id < 2")],
        "delete by position": [lambda: other.delete("id = 10")],
        "delete by key": [lambda: other.delete_keys(rows(10).select(["id"]), ["id"])],
        "compaction": [lambda: other.rewrite_data_files(options={"rewrite-all": "true"})],
        "rewrite of manifests": [lambda: other.rewrite_manifests()],
        "rollback": [lambda: other.manage_snapshots().rollback_to_snapshot(snapshot_ids[-2]).commit()],
    }
    came = {
        "append": [40],
        "two appends": [40, 41],
        "rollback and append": [40],
        "append that merges manifests": [40],
        "rollback": [0],
    }
    gone = {"delete of a file": [1], "delete by position": [10], "delete by key": [10]}
    tries: list[int] = []

    def race() -> None:
        changes = do.get(meanwhile, [lambda: other.append(rows(40))])
        for change in changes:
            change()
        losing.append(lambda: tries.append(1))

    losing.append(race)
    table.rewrite_data_files(options={"rewrite-all": "true"})
    assert len(tries) == (0 if holds else 1)
    assert ids_of(table) == sorted({*before, *came.get(meanwhile, [])} - {*gone.get(meanwhile, [])})
    assert files_in(table) == files_of(table)
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("change", ["compaction", "compaction of some", "delete"])
def test_rows_keep_the_ids_that_they_got_meanwhile(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], change: str
) -> None:
    """The first commit after an upgrade to v3 gives row ids to what is there; what was planned before knows none."""
    table = make_table(catalog, format_version=2, properties={"write.delete.mode": "copy-on-write"})
    for start in (1, 3):
        table.append(rows(start, start + 1))
    table.rewrite_manifests()
    table.upgrade(3)
    other, ids = open_again().load_table("ns.t"), dict[int, int]()

    def row_ids(of: icecore.Table) -> dict[int, int]:
        found = of.scan(selected_fields=("id", "_row_id")).to_arrow().to_pydict()
        return dict(zip(found["id"], found["_row_id"], strict=True))

    def race() -> None:
        other.append(rows(5))
        ids.update(row_ids(other))

    losing.append(race)
    if change == "delete":
        table.delete("id = 1")
    else:
        table.rewrite_data_files(None if change == "compaction" else "id < 3", options={"rewrite-all": "true"})
    assert row_ids(table.refresh()) == {i: row_id for i, row_id in ids.items() if i != 1 or change != "delete"}
    assert files_in(table) == files_of(table)


@pytest.mark.parametrize("keeps_number", ["true", "false"])
def test_a_compaction_does_not_keep_what_a_rollback_took_back(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], keeps_number: str
) -> None:
    """Rows that an equality delete took are there again after a rollback, so files written without them are not used.

    Nor do rows come back that the deletes of another branch took, which the new files' number would be above.
    """
    table = make_table(catalog, format_version=2)
    for i in range(5):
        table.append(rows(2 * i, 2 * i + 1))
    before = table.metadata.current_snapshot_id
    assert before is not None
    table.delete_keys(rows(3).select(["id"]), ["id"])
    deleted = table.metadata.current_snapshot_id
    assert deleted is not None
    other = open_again().load_table("ns.t")
    options = {"use-starting-sequence-number": keeps_number}
    losing.append(lambda: other.manage_snapshots().rollback_to_snapshot(before).commit())
    assert table.rewrite_data_files(options=options).rewritten_data_files == 5
    assert ids_of(table) == list(range(10))
    assert files_in(table) == files_of(table)

    other.refresh().manage_snapshots().set_current_snapshot(before).commit()
    other.append(rows(10))
    table.refresh()
    losing.append(lambda: other.manage_snapshots().set_current_snapshot(deleted).commit())
    table.rewrite_data_files(options=options)
    assert ids_of(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert files_in(table) == files_of(table)


@pytest.mark.parametrize("change", ["compaction", "delete"])
def test_values_of_a_column_that_came_back_meanwhile_are_kept(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], change: str
) -> None:
    """Files that were written without the column are not used once it is there again."""
    table = make_table(catalog, partition_spec=["truncate(2, id)"])
    table.append(rows(0, 1))
    table.append(rows(2, 3))
    with table.update_schema() as schema:
        schema.delete_column("name")
    dropped, other = catalog.position, open_again()

    def race() -> None:
        other.revert(dropped)
        other.load_table("ns.t").delete("id = 3")

    losing.append(race)
    if change == "delete":
        table.refresh().delete("id = 0")
    else:
        table.refresh().rewrite_data_files(options={"rewrite-all": "true"})
    left = [1, 2] if change == "delete" else [0, 1, 2]
    assert table.refresh().scan().to_arrow().sort_by("id").to_pydict() == {"id": left, "name": [f"n{i}" for i in left]}


def test_sp6_deletes_of_a_partition_by_a_spec_that_the_new_files_are_not_of(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]]
) -> None:
    """They came after the new files were written, and don't apply to these: the files are written again without."""
    table = make_table(catalog, format_version=2, partition_spec=["name"])
    table.append(rows(1, 2))
    table.append(rows(1, 2))
    deletes = write_key_deletes(rows(1), ["id"], table.metadata, storage_of(table))
    respec(table, ["bucket(2, id)"])
    other = open_again().load_table("ns.t")
    losing.append(lambda: other.row_delta((), deletes))
    table.rewrite_data_files(options={"rewrite-all": "true"})
    assert ids_of(table) == [2, 2]
    assert files_in(table) == files_of(table)
