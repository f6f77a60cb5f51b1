"""Named plans: what asking again costs, and when what is kept no longer holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from broken_tables import edit, edit_manifest, list_of, register
from core_tables import ids_of, make_table, rows
from scan_task_reader import read_task

import icecore
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ExpressionError, NoSuchPlanError, NoSuchSnapshotError, ValidationError
from icecore.engine.expression.nodes import Predicate
from icecore.engine.scan.named_plan import NamedPlan
from icecore.engine.spec.types import DoubleType, LongType

MERGE = {"write.delete.mode": "merge-on-read"}


def same(plan: NamedPlan, table: icecore.Table, row_filter: str | None = None) -> bool:
    """Whether the plan is the one made anew, delete files in any order."""

    def described(tasks: list[FileScanTask]) -> list[tuple[str, list[str], str]]:
        return sorted((t.file.file_path, sorted(d.file_path for d in t.delete_files), repr(t.residual)) for t in tasks)

    return described(plan.plan_files()) == described(table.scan(row_filter).plan_files())


def costs(plan: NamedPlan) -> tuple[int, int]:
    return plan.manifests_evaluated, plan.manifests_reused


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """Five appends to five partitions, a manifest each."""
    made = make_table(catalog, partition_spec=["name"], format_version=2, properties=MERGE)
    for i in range(5):
        made.append(rows(i, i))
    return made


def test_a_plan_holds_for_its_filter_however_that_prints(table: icecore.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is told apart by the operator, the column and the literals with their types."""
    monkeypatch.setattr(Predicate, "__repr__", lambda _: "a leaf")
    for row_filter in ("id < 4", "id < 2", "id <= 2", "name < '2'", "id IN (2)", "NOT (id < 2)"):
        plan = table.prefetch(row_filter, name="p")
        assert costs(plan) == (5, 0)
        assert plan.scan.to_arrow().sort_by("id").equals(table.scan(row_filter).to_arrow().sort_by("id"))
    assert costs(table.prefetch("NOT (id < 2)", name="p")) == (0, 5)


def test_asking_again_costs_what_was_committed_since(table: icecore.Table) -> None:
    """An append costs its manifest, and a delete its own manifest and those whose files it may touch."""
    assert costs(table.prefetch("id < 4", name="p")) == (5, 0)
    assert costs(table.named_plan("p")) == (0, 5)
    table.append(rows(2, 9))
    plan = table.named_plan("p")
    assert costs(plan) == (1, 5) and same(plan, table, "id < 4")
    table.delete_keys(pa.table({"id": [3], "name": ["n3"]}), ["id", "name"])
    plan = table.named_plan("p")
    assert costs(plan) == (2, 5) and same(plan, table, "id < 4")
    assert [len(t.delete_files) for t in plan.plan_files()].count(1) == 1
    table.append(rows(3))
    plan = table.named_plan("p")
    assert costs(plan) == (1, 7) and same(plan, table, "id < 4")
    assert plan.scan.count() == table.scan("id < 4").count() == 8


def test_a_manifest_that_is_gone_is_dropped(table: icecore.Table) -> None:
    table.prefetch(name="p")
    table.delete("name = 'n1'")
    plan = table.named_plan("p")
    assert same(plan, table) and len(plan.plan_files()) == 4
    assert plan.manifests_evaluated <= 1


def test_a_rollback_takes_deletes_away_and_brings_them_back(table: icecore.Table) -> None:
    """Files that had a delete file which is gone are matched anew."""
    table.prefetch(name="p")
    before = table.snapshots()[-1].snapshot_id
    table.append(rows(7, 8))
    table.delete_keys(pa.table({"id": [3], "name": ["n3"]}), ["id", "name"])
    deleted = table.snapshots()[-1].snapshot_id
    assert [len(t.delete_files) for t in table.named_plan("p").plan_files()].count(1) == 1
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    plan = table.named_plan("p")
    assert costs(plan) == (1, 4) and same(plan, table)
    assert all(not t.delete_files for t in plan.plan_files())
    table.manage_snapshots().set_current_snapshot(deleted).commit()
    plan = table.named_plan("p")
    assert same(plan, table) and [len(t.delete_files) for t in plan.plan_files()].count(1) == 1


def test_a_vector_that_is_replaced_or_gone_is_matched_anew(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, format_version=3, properties=MERGE)
    table.append(rows(1, 2, 3, 4))
    table.prefetch(name="p")
    ids = []
    for i in (1, 2):
        table.delete(f"id = {i}")
        ids.append(table.snapshots()[-1].snapshot_id)
        plan = table.named_plan("p")
        assert same(plan, table) and plan.scan.count() == 4 - i
    table.manage_snapshots().rollback_to_snapshot(ids[0]).commit()
    assert table.named_plan("p").scan.count() == 3
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert table.named_plan("p").scan.count() == 4


def test_an_equality_delete_is_for_every_file_whichever_it_names(catalog: icecore.Catalog, tmp_path: Path) -> None:
    theirs = make_table(catalog, format_version=2)
    theirs.append(rows(1, 2))
    theirs.append(rows(1, 3))
    first = theirs.scan("id = 2").plan_files()[0].file.file_path
    theirs.delete_keys(rows(1).select(["id"]), ["id"])
    edit_manifest(theirs, 1, lambda entries: entries[0]["data_file"].update(referenced_data_file=first))
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        table = register(ours, theirs, "t")
        *_, before, after = (s.snapshot_id for s in table.metadata.snapshots)
        table.manage_snapshots().rollback_to_snapshot(before).commit()
        table.prefetch(name="p")
        table.manage_snapshots().set_current_snapshot(after).commit()
        assert ids_of(table) == [2, 3]
        assert same(table.named_plan("p"), table)


def test_least_sequence_numbers_of_others_are_not_relied_upon(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Early releases of PyIceberg note the commit's own where an entry of a merged manifest has 0."""
    theirs = make_table(catalog, format_version=2, properties=MERGE)
    theirs.append(rows(1, 2))
    theirs.delete("id = 1")
    theirs.append(rows(3))
    edit(list_of(theirs), lambda listed: [r.update(min_sequence_number=3) for r in listed if r["content"] == 0])
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        table = register(ours, theirs, "t")
        assert same(table.prefetch(name="p"), table)
        table.append(rows(4))
        assert same(table.prefetch("id < 4", name="p"), table, "id < 4")
        assert table.named_plan("p").scan.count() == 2


def test_another_schema_or_spec_or_filter_is_planned_anew(table: icecore.Table) -> None:
    table.prefetch("id < 4", name="p")
    with table.update_spec() as update:
        update.add_field("bucket(2, id)")
    plan = table.named_plan("p")
    assert costs(plan) == (5, 0) and same(plan, table, "id < 4")
    with table.update_schema() as schema:
        schema.add_column("more", LongType())
    assert costs(table.named_plan("p")) == (5, 0)
    assert table.named_plan("p").scan.to_arrow().column_names == ["id", "name", "more"]
    assert costs(table.prefetch("id < 3", name="p")) == (5, 0)
    assert costs(table.prefetch("id < 3", name="p", selected_fields=("id",))) == (0, 5)
    assert table.named_plan("p").scan.to_arrow().column_names == ["id"]


def test_a_plan_is_of_columns_whatever_they_are_called(table: icecore.Table) -> None:
    """A renamed column is the same one; another that takes the name is not, and a dropped one is an error."""
    with table.update_schema() as update:
        update.add_column("other", LongType())
    table.prefetch("id < 3", name="p", selected_fields=("id",))
    table.update_schema().rename_column("id", "key").commit()
    plan = table.named_plan("p")
    assert same(plan, table, "key < 3") and plan.scan.to_arrow().column_names == ["key"]
    table.update_schema().rename_column("other", "id").commit()
    plan = table.named_plan("p")
    assert same(plan, table, "key < 3") and sorted(plan.scan.to_arrow()["key"].to_pylist()) == [0, 0, 1, 1, 2, 2]
    again = table.prefetch("id IS NULL", name="q", selected_fields=("id", "_file"))
    assert again.scan.count() == 10
    table.update_schema().delete_column("id").commit()
    with pytest.raises(ExpressionError, match=r"'id' .* is gone"):
        table.named_plan("q")
    table.prefetch(name="r", selected_fields=("name",))
    table.prefetch(name="s", selected_fields=("KEY",), case_sensitive=False)
    table.update_schema().rename_column("key", "id").commit()
    assert table.named_plan("s").scan.to_arrow().column_names == ["id"]
    table.update_spec().remove_field("name").commit()
    table.update_schema().delete_column("name").commit()
    with pytest.raises(ValidationError, match=r"'name' .* is gone"):
        table.named_plan("r")


def test_a_filter_is_bound_anew_to_a_promoted_column(catalog: icecore.Catalog) -> None:
    """What no int could be a long can, and a column that must not be null may have to be tested for it later."""
    schema = pa.schema([pa.field("i", pa.int32(), nullable=False), ("f", pa.float32())])
    table = catalog.create_table("ns.i", schema)
    table.append(pa.table({"i": pa.array([1], pa.int32()), "f": pa.array([0.5], pa.float32())}, schema=schema))
    filters = ["i > 3000000000", "i < 3000000000", "i IS NULL", "f = 0.1", "i = $x"]
    for n, text in enumerate(filters):
        table.prefetch(text, name=str(n), parameters={"x": 2**40} if "$" in text else None)
    with table.update_schema() as update:
        update.update_column("i", LongType()).make_column_optional("i").update_column("f", DoubleType())
    table.append(pa.table({"i": [2**40, None, 7], "f": [0.1, 1.5, None]}))
    counts = [table.named_plan(str(n)).scan.count() for n in range(len(filters))]
    fresh = [table.scan(t, parameters={"x": 2**40} if "$" in t else None).count() for t in filters]
    assert counts == fresh == [1, 2, 1, 1, 1]


def test_another_process_has_it_too(
    table: icecore.Table, open_again: Callable[[], icecore.Catalog], catalog: icecore.Catalog
) -> None:
    table.prefetch("id < 2", name="of both")
    other = open_again().load_table("ns.t")
    assert other.named_plans() == ["of both"]
    other.append(rows(1))
    assert costs(other.named_plan("of both")) == (1, 5)
    assert costs(table.named_plan("of both")) == (0, 5), "this process has not seen the commit"
    assert costs(table.refresh().named_plan("of both")) in ((0, 6), (1, 5))
    catalog.rename_table("ns.t", "ns.renamed")
    assert catalog.load_table("ns.renamed").named_plans() == ["of both"]


def test_it_is_of_a_branch_or_tag(table: icecore.Table) -> None:
    head = table.snapshots()[-1].snapshot_id
    table.manage_snapshots().create_branch(head, "side").create_tag(head, "mark").commit()
    table.prefetch(name="s", ref="side")
    table.prefetch(name="m", ref="mark")
    table.append(rows(8), branch="side")
    table.append(rows(9))
    assert len(table.named_plan("s").plan_files()) == 6
    assert costs(table.named_plan("m")) == (0, 5)
    table.manage_snapshots().remove_branch("side").commit()
    with pytest.raises(NoSuchSnapshotError):
        table.named_plan("s")


def test_tasks_as_arrow_and_as_json_lines(table: icecore.Table) -> None:
    """The lines are what Appendix C has: they can be read again."""
    table.delete_keys(pa.table({"id": [3], "name": ["n3"]}), ["id", "name"])
    plan = table.prefetch("id < 4", name="p")
    assert plan.to_arrow().num_rows == 4
    assert plan.snapshot_id == table.snapshots()[-1].snapshot_id
    lines = list(plan.to_json_lines())
    for task, line in zip(plan.plan_files(), lines, strict=True):
        assert read_task(orjson.loads(line), table.specs(), task.data_sequence_number) == task


def test_names_that_cannot_be_and_plans_that_are_not_there(table: icecore.Table) -> None:
    for wrong in ("", "x" * 300, "é" * 100, "\ud800"):
        with pytest.raises(ValidationError):
            table.prefetch(name=wrong)
    for name in ("../../etc", "a/b", ".", "..", "%2F", "p.plan", "ü n"):
        table.prefetch(name=name)
    assert table.named_plans() == sorted(["../../etc", "a/b", ".", "..", "%2F", "p.plan", "ü n"])
    table.drop_named_plan("a/b")
    assert "a/b" not in table.named_plans()
    for name in ("a/b", "nothing"):
        with pytest.raises(NoSuchPlanError):
            table.named_plan(name)
        with pytest.raises(NoSuchPlanError):
            table.drop_named_plan(name)


def test_a_damaged_file_is_no_plan_and_is_made_again(table: icecore.Table, warehouse: Path) -> None:
    """A byte changed anywhere, or a file cut short, never gives a wrong plan."""
    table.prefetch("id < 4", name="p")
    [file] = (warehouse / ".icecore" / "plans").rglob("*.plan")
    good = file.read_bytes()
    for at in range(0, len(good), max(1, len(good) // 40)):
        file.write_bytes(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :])
        with pytest.raises(NoSuchPlanError):
            table.named_plan("p")
        file.write_bytes(good[:at])
        with pytest.raises(NoSuchPlanError):
            table.named_plan("p")
    file.write_bytes(b"\xff\x00 nothing")
    assert costs(table.prefetch("id < 4", name="p")) == (5, 0)
    assert same(table.named_plan("p"), table, "id < 4")


def test_an_empty_table_has_an_empty_plan(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    assert table.prefetch("id = 1", name="p").plan_files() == []
    assert table.named_plan("p").to_arrow().num_rows == 0
    table.append(rows(1))
    assert len(table.named_plan("p").plan_files()) == 1
    assert table.named_plan("p").plan().counts.files_total == 1
