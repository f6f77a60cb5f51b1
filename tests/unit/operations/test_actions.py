"""Operations are values: each plans itself on a table as it is, without a transaction, and commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve
from core_tables import make_table, rows

import icecore
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.errors import ConflictingCommitsError
from icecore.engine.maintenance.rewrite_delete_files import DanglingDeletes, DeleteRewrite
from icecore.engine.operations.action import Action, PlanContext, SnapshotTarget
from icecore.engine.operations.conflict_validation import CommitBase, IsolationLevel
from icecore.engine.operations.delete_by_filter import DeleteByFilter
from icecore.engine.operations.replace_files import FileChange
from icecore.engine.operations.rewrite_manifests import RewriteManifests
from icecore.engine.operations.upsert import Upsert, UpsertResult
from icecore.engine.spec.snapshot import Operation
from icecore.engine.table.table import Table

TARGET = SnapshotTarget("main", 7, {"why": "test"})
ACTIONS: dict[str, tuple[Callable[[Table], Action], Operation]] = {
    "delete of a file": (lambda t: DeleteByFilter(TARGET, "id >= 4"), Operation.DELETE),
    "delete of a row": (lambda t: DeleteByFilter(TARGET, "id = 4"), Operation.OVERWRITE),
    "overwrite of files": (lambda t: FileChange.of(TARGET, base_of(t), [file_of(t)], []), Operation.DELETE),
    "rewrite of manifests": (lambda t: RewriteManifests(TARGET), Operation.REPLACE),
    "upsert": (
        lambda t: Upsert.of([{"id": 9, "name": "new"}], ["id"], t.schema(), TARGET, True, True),
        Operation.APPEND,
    ),
}


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
        table.append(rows(1, 2, 3))
        table.append(rows(4, 5))
        yield table


def context(table: Table) -> PlanContext:
    repository, state = table._repository, table.refresh().state
    return PlanContext(repository, table._planning, state, state.metadata, repository.storage_of(state))


def base_of(table: Table) -> CommitBase:
    return CommitBase(table.metadata.current_snapshot_id, IsolationLevel.SERIALIZABLE)


def file_of(table: Table) -> str:
    return next(t.file.file_path for t in table.scan("id = 4").plan_files())


@pytest.mark.parametrize("name", ACTIONS)
def test_an_operation_plans_itself(table: Table, name: str) -> None:
    """On the head that there is; planned again once another commit came, on that."""
    make, operation = ACTIONS[name]
    action = make(table)
    for _ in range(2):
        at, before = context(table), table.state.stream_version
        command = action.plan(at)
        assert isinstance(command, ProduceSnapshot)
        assert (command.operation, command.snapshot_id, command.branch) == (operation, 7, "main")
        assert command.base_snapshot_id == table.metadata.current_snapshot_id
        assert table.refresh().state.stream_version == before
        if isinstance(action, FileChange):
            # It was decided on a base, which the next commit would get in the way of.
            return
        table.append(rows(6))


@pytest.mark.parametrize("kind", [DeleteRewrite, DanglingDeletes])
def test_where_there_is_nothing_to_do_there_is_no_command(
    table: Table, kind: Callable[[SnapshotTarget], Action]
) -> None:
    assert kind(TARGET).plan(context(table)) is None


def test_one_manifest_is_written_again_only_for_the_deleted_entries_in_it(table: Table) -> None:
    table.rewrite_manifests()
    table.delete("id >= 4")
    assert [m.manifest.deleted_files_count for m in table.manifests()] == [1]
    for _ in range(2):
        table.rewrite_manifests()
        assert [m.manifest.deleted_files_count for m in table.manifests()] == [0]
        assert len(table.snapshots()) == 5
    assert RewriteManifests(TARGET).plan(context(table)) is None


def test_the_result_is_that_of_the_latest_planning(table: Table) -> None:
    data = [{"id": 6, "name": "again"}, {"id": 7, "name": "new"}]
    upsert = Upsert.of(data, ["id"], table.schema(), TARGET, True, True)
    upsert.plan(context(table))
    assert upsert.result == UpsertResult(0, 2)
    table.append(rows(6))
    upsert.plan(context(table))
    assert upsert.result == UpsertResult(1, 1)


def test_an_operation_with_a_base_conflicts_with_what_came_since(table: Table) -> None:
    """Without one it is of the rows that are there."""
    pinned = DeleteByFilter(TARGET, "id = 2", (), base_of(table))
    table.delete("id = 2")
    with pytest.raises(ConflictingCommitsError):
        pinned.plan(context(table))
    assert evolve(pinned, base=None).plan(context(table)).is_empty is False


def test_filters_are_over_the_schema_that_the_transaction_makes(table: Table) -> None:
    """The context's metadata may be ahead of the state's."""
    with table.transaction() as transaction:
        transaction.update_schema().rename_column("name", "title").commit()
        at = evolve(context(table), metadata=transaction.metadata)
        command = DeleteByFilter(TARGET, "title = 'n4'").plan(at)
        assert [r.removed.num_rows for r in command.removals] == [1]
