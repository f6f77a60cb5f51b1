"""Deletes and overwrites by filter."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import TRUE
from icecore.engine.expression.sql.parse import FilterLike
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.conflict_validation import Check, CommitBase
from icecore.engine.operations.copy_on_write import LiveRows
from icecore.engine.operations.file_effects import FileEffects, discarding_on_error, produce
from icecore.engine.operations.merge_on_read import merges_on_read, select_rows
from icecore.engine.operations.reusable_files import ReusableFiles, task_key
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.snapshot import Snapshot


@frozen
class DeleteByFilter:
    """A delete or overwrite by filter on a branch, with the files that replace the rows."""

    target: SnapshotTarget
    row_filter: FilterLike
    added: tuple[ContentFile, ...] = ()
    base: CommitBase | None = None
    before: ReusableFiles = field(factory=ReusableFiles)

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        """The command for the head of the branch as it is now.

        Files whose rows all match are removed. Files in which some rows may match are read; the rows found are deleted
        by position, or the file is written again without them, as `write.delete.mode` says. With a base, the rows are
        those of the base: raises ConflictingCommitsError where they have changed since.
        """
        effects = FileEffects(merges_on_read(at.metadata))
        check = self.base and Check.of(at, self.base, self.target.branch)
        snapshot = read_snapshot(at, self.target.branch, self.base)
        if check:
            check.read(self.row_filter)
        tasks = [] if snapshot is None else at.planner.tasks(at.state, snapshot, self.row_filter, at.metadata.schema())
        self.before.use(at.metadata)
        # If this raises, the files read and written so far can be used by the next attempt.
        at.check_reading(sum(t.file.file_size_in_bytes for t in tasks if _is_new(t, self.before)))
        with discarding_on_error(at, effects, self.before):
            _remove_selected(at, tasks, effects, self.before)
            if check:
                check.touched(effects.touched, vectors=effects.by_position)
            return produce(at, self.target, self.added, effects)


def read_snapshot(at: PlanContext, branch: str, base: CommitBase | None) -> Snapshot | None:
    """The snapshot whose rows a change concerns: its base where it has one, else the branch's head."""
    if base is None:
        return at.head(branch)
    return None if base.base_snapshot_id is None else at.state.metadata.find_snapshot(base.base_snapshot_id)


def _is_new(task: FileScanTask, before: ReusableFiles) -> bool:
    """Whether the file has to be read."""
    return task.residual != TRUE and before.is_new(task)


def _remove_selected(
    at: PlanContext, tasks: Iterable[FileScanTask], effects: FileEffects, before: ReusableFiles
) -> None:
    metadata, storage, deletes = at.metadata, at.storage, DeleteCache()
    for task in tasks:
        if task.residual == TRUE:
            effects.gone.append(task.file.file_path)
            continue
        key = task_key(task)
        if key not in before.selected:
            before.selected[key] = select_rows(task, metadata, storage, deletes)
        effects.take(LiveRows(task, metadata, storage, deletes), before.selected[key], before)
    effects.write(at, deletes, before)
