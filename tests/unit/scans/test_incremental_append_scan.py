"""Incremental append scans: which range they take, and what they refuse."""

from __future__ import annotations

import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.errors import ExpressionError, NoSuchSnapshotError, ValidationError


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """Three appends and a delete: ids 1, 2 and 3 were appended, 1 is gone."""
    made = make_table(catalog)
    made.append(rows(1))
    made.append(rows(2))
    made.delete("id = 1")
    made.append(rows(3))
    return made


def snapshot_ids(table: icecore.Table) -> list[int]:
    return [s.snapshot_id for s in table.snapshots()]


def appended(table: icecore.Table, **options: object) -> list[int]:
    ids: list[int] = table.incremental_append_scan(**options).to_arrow()["id"].to_pylist()  # type: ignore[arg-type]
    return sorted(ids)


def test_the_start_is_exclusive_or_inclusive_and_the_end_inclusive(table: icecore.Table) -> None:
    """A row that was deleted later is still one that was appended."""
    first, second, deleting, last = snapshot_ids(table)
    assert appended(table) == [1, 2, 3]
    assert appended(table, from_snapshot_id_exclusive=first) == [2, 3]
    assert appended(table, from_snapshot_id_inclusive=first) == [1, 2, 3]
    assert appended(table, from_snapshot_id_exclusive=first, to_snapshot_id_inclusive=deleting) == [2]
    assert appended(table, from_snapshot_id_inclusive=deleting) == [3]
    assert appended(table, from_snapshot_id_exclusive=last) == []
    assert table.incremental_append_scan(to_snapshot_id_inclusive=second).count() == 2


def test_a_file_that_a_later_append_carried_over_counts_once(catalog: icecore.Catalog) -> None:
    made = make_table(catalog, properties={"commit.manifest.min-count-to-merge": "2"})
    for i in range(3):
        made.append(rows(i))
    assert len(made.manifests()) == 2 and appended(made) == [0, 1, 2]


def test_it_is_filtered_projected_and_limited_as_any_scan(table: icecore.Table) -> None:
    scan = table.incremental_append_scan("id >= 2", selected_fields=("name",), limit=1)
    assert scan.to_arrow().to_pylist() in ([{"name": "n2"}], [{"name": "n3"}])
    assert scan.plan().counts.files_planned == 2
    assert table.incremental_append_scan("id = ?", parameters=[3]).count() == 1


def test_a_branch_has_its_own_line(table: icecore.Table) -> None:
    """An end that is on another branch is refused, and so is a tag as a branch."""
    first, _, _, last = snapshot_ids(table)
    table.manage_snapshots().create_branch(first, "side").create_tag(first, "mark").commit()
    table.append(rows(9), branch="side")
    assert appended(table, branch="side") == [1, 9]
    assert appended(table, from_snapshot_id_exclusive=first, branch="side") == [9]
    with pytest.raises(ValidationError, match="not on the branch"):
        table.incremental_append_scan(to_snapshot_id_inclusive=last, branch="side")
    with pytest.raises(ValidationError, match="is a tag"):
        table.incremental_append_scan(branch="mark")
    with pytest.raises(NoSuchSnapshotError):
        table.incremental_append_scan(branch="no such branch")


def test_a_start_off_the_line_is_refused(table: icecore.Table) -> None:
    first, second, _, last = snapshot_ids(table)
    with pytest.raises(ValidationError, match="no ancestor"):
        table.incremental_append_scan(from_snapshot_id_exclusive=last, to_snapshot_id_inclusive=first)
    with pytest.raises(ValidationError, match="no ancestor"):
        table.incremental_append_scan(from_snapshot_id_inclusive=last, to_snapshot_id_inclusive=second)
    with pytest.raises(ValidationError, match="no ancestor"):
        table.incremental_append_scan(from_snapshot_id_exclusive=123456)
    with pytest.raises(NoSuchSnapshotError):
        table.incremental_append_scan(to_snapshot_id_inclusive=123456)
    with pytest.raises(NoSuchSnapshotError):
        table.incremental_append_scan(from_snapshot_id_inclusive=123456)
    with pytest.raises(ValidationError, match="one of"):
        table.incremental_append_scan(from_snapshot_id_exclusive=first, from_snapshot_id_inclusive=first)
    with pytest.raises(ExpressionError):
        table.incremental_append_scan("nothing = 1")
    with pytest.raises(ValidationError):
        table.incremental_append_scan(selected_fields=("nothing",))


def test_an_empty_table_has_nothing_to_give(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    assert appended(table) == []
    assert table.incremental_append_scan().plan().counts.files_total == 0
    with pytest.raises(ValidationError, match="no snapshot"):
        table.incremental_append_scan(from_snapshot_id_exclusive=1)


def test_an_exclusive_start_may_have_been_expired(table: icecore.Table) -> None:
    """What was appended after it is still there to be read."""
    first, second, _, _ = snapshot_ids(table)
    table.maintenance.expire_snapshots().by_id(first).commit()
    assert table.snapshot_by_id(first) is None
    assert appended(table, from_snapshot_id_exclusive=first, to_snapshot_id_inclusive=second) == [2]


def test_rows_have_the_schema_of_now(table: icecore.Table) -> None:
    first = snapshot_ids(table)[0]
    table.update_schema().rename_column("name", "label").commit()
    scan = table.incremental_append_scan(from_snapshot_id_exclusive=first, selected_fields=("label",))
    assert sorted(scan.to_arrow()["label"].to_pylist()) == ["n2", "n3"]


def test_RL7_rows_have_the_ids_that_an_upgrade_gave_them(catalog: icecore.Catalog) -> None:
    """A manifest from before the upgrade has its row ids where it was listed last."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.upgrade(3)
    table.append(rows(3))
    of_scan, of_table = (
        {r["id"]: r["_row_id"] for r in scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()}
        for scan in (table.incremental_append_scan, table.scan)
    )
    assert of_scan == of_table
    assert None not in of_table.values()
