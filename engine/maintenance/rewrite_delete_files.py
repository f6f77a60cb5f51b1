"""Delete files made fewer: small position delete files merged, and those dropped that no data file needs.

Spec: Row-level Deletes (D1: in v3 position delete files become vectors; D2), Snapshots (L4: replace).
"""

from __future__ import annotations

from collections import defaultdict

from attrs import define

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.data.read.read_tasks import DeleteCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import TRUE
from icecore.engine.maintenance.rewrite_data_files import RewriteResult
from icecore.engine.metadata.fold import TableState
from icecore.engine.operations.delete_by_filter import FileChanges, SnapshotTarget, discarding_on_error, produce
from icecore.engine.operations.reusable_files import FileKey
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Operation
from icecore.engine.storage.file_io import Storage
from icecore.projections.plan.planner import Planner


@define
class DeleteRewrite:
    """A rewrite of delete files on a branch; `result` is that of the latest planning, so final after the commit."""

    target: SnapshotTarget
    result: RewriteResult = RewriteResult()


def plan_delete_rewrite(
    repository: Repository,
    planner: Planner,
    state: TableState,
    metadata: TableMetadata,
    rewrite: DeleteRewrite,
    storage: Storage,
) -> ProduceSnapshot | None:
    """The command for the head of the branch as it is now; where the branch moves, this is called again.

    In v2 each data file with several position delete files gets one in their place, in v3 one with any gets a vector.
    A delete file goes where all data files that it is about are among those. None where there is nothing to do.
    """
    snapshot = state.metadata.snapshot_by_ref(rewrite.target.branch)
    rewrite.result = RewriteResult()
    if snapshot is None:
        return None
    tasks = planner.tasks(state, snapshot, TRUE, metadata.schema())
    chosen = [t for t in tasks if _is_worth_it(t, metadata.format_version)]
    if not chosen:
        return None
    effects, deletes = FileChanges(True), DeleteCache()
    with discarding_on_error(effects, storage):
        for task in chosen:
            positions = deletes.deleted_positions(storage, task.file.file_path, task.delete_files)
            if len(positions):
                effects.selected.append((task, positions))
        effects.write(metadata, storage, deletes)
        about: dict[FileKey, set[str]] = defaultdict(set)
        for task in tasks:
            for d in _position_deletes(task):
                about[d.file_path, d.content_offset].add(task.file.file_path)
        paths = {t.file.file_path for t in chosen}
        effects.dropped = [key for key, files in about.items() if files <= paths]
        command = produce(repository, state, metadata, rewrite.target, (), effects, Operation.REPLACE)
    removed = sum(len(r.removed) for r in command.removals)
    rewrite.result = RewriteResult(removed_delete_files=removed, added_delete_files=len(effects.added))
    return command


def plan_dangling_removal(
    repository: Repository, planner: Planner, state: TableState, metadata: TableMetadata, rewrite: DeleteRewrite
) -> ProduceSnapshot | None:
    """The command that drops the delete files which apply to no live data file; None where there are none."""
    snapshot = state.metadata.snapshot_by_ref(rewrite.target.branch)
    rewrite.result = RewriteResult()
    if snapshot is None:
        return None
    needed = {
        (d.file_path, d.content_offset)
        for task in planner.tasks(state, snapshot, TRUE, metadata.schema())
        for d in task.delete_files
    }
    dangling: list[FileKey] = []
    for listed in repository.list_manifests(state, snapshot):
        if listed.manifest.content is ManifestContent.DELETES and listed.manifest.has_live_files:
            live = repository.entries.live(state.stream, listed, repository.storage_of(state))
            keys = zip(live["file_path"].to_pylist(), live["content_offset"].to_pylist(), strict=True)
            dangling += [key for key in keys if key not in needed]
    if not dangling:
        return None
    effects = FileChanges(False, dropped=dangling)
    rewrite.result = RewriteResult(removed_delete_files=len(dangling))
    return produce(repository, state, metadata, rewrite.target, (), effects, Operation.REPLACE)


def _position_deletes(task: FileScanTask) -> list[ContentFile]:
    return [d for d in task.delete_files if d.content is DataFileContent.POSITION_DELETES]


def _is_worth_it(task: FileScanTask, format_version: int) -> bool:
    found = _position_deletes(task)
    if format_version >= 3:
        return any(not d.is_deletion_vector for d in found)
    return len(found) > 1
