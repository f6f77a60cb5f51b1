"""Rewrites of delete files: small position delete files merged, and dangling ones dropped.

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
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.file_effects import FileEffects, discarding_on_error, produce
from icecore.engine.operations.reusable_files import FileKey
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestContent
from icecore.engine.spec.snapshot import Operation


@define
class DeleteRewrite:
    """A merge of position delete files of a branch; `result` is that of the latest planning, final after the commit."""

    target: SnapshotTarget
    result: RewriteResult = RewriteResult()

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command for the head of the branch as it is now; None where there is nothing to rewrite.

        In v2 the position delete files of a data file that has several become one, in v3 any become a deletion vector.
        A delete file is removed where all data files that it applies to are among those.
        """
        snapshot, self.result = at.head(self.target.branch), RewriteResult()
        if snapshot is None:
            return None
        tasks = at.planner.tasks(at.state, snapshot, TRUE, at.metadata.schema())
        chosen = [t for t in tasks if _is_worth_it(t, at.metadata.format_version)]
        if not chosen:
            return None
        effects, deletes = FileEffects(True), DeleteCache()
        with discarding_on_error(at, effects):
            for task in chosen:
                positions = deletes.deleted_positions(at.storage, task.file.file_path, task.delete_files)
                if len(positions):
                    effects.selected.append((task, positions))
            effects.write(at, deletes)
            about: dict[FileKey, set[str]] = defaultdict(set)
            for task in tasks:
                for d in _position_deletes(task):
                    about[d.file_path, d.content_offset].add(task.file.file_path)
            paths = {t.file.file_path for t in chosen}
            effects.dropped = [key for key, files in about.items() if files <= paths]
            command = produce(at, self.target, (), effects, Operation.REPLACE)
        removed = sum(len(r.removed) for r in command.removals)
        self.result = RewriteResult(removed_delete_files=removed, added_delete_files=len(effects.added))
        return command


@define
class DanglingDeletes:
    """A removal of delete files that apply to no live data file of a branch; `result` as in a DeleteRewrite."""

    target: SnapshotTarget
    result: RewriteResult = RewriteResult()

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command for the head of the branch as it is now; None where there are none."""
        snapshot, self.result = at.head(self.target.branch), RewriteResult()
        if snapshot is None:
            return None
        needed = {
            (d.file_path, d.content_offset)
            for task in at.planner.tasks(at.state, snapshot, TRUE, at.metadata.schema())
            for d in task.delete_files
        }
        dangling: list[FileKey] = []
        for listed in at.repository.list_manifests(at.state, snapshot):
            if listed.manifest.content is ManifestContent.DELETES and listed.manifest.has_live_files:
                live = at.repository.entries.live(at.state.stream, listed, at.repository.storage_of(at.state))
                keys = zip(live["file_path"].to_pylist(), live["content_offset"].to_pylist(), strict=True)
                dangling += [key for key in keys if key not in needed]
        if not dangling:
            return None
        effects = FileEffects(False, dropped=dangling)
        self.result = RewriteResult(removed_delete_files=len(dangling))
        return produce(at, self.target, (), effects, Operation.REPLACE)


def _position_deletes(task: FileScanTask) -> list[ContentFile]:
    return [d for d in task.delete_files if d.content is DataFileContent.POSITION_DELETES]


def _is_worth_it(task: FileScanTask, format_version: int) -> bool:
    found = _position_deletes(task)
    if format_version >= 3:
        return any(not d.is_deletion_vector for d in found)
    return len(found) > 1
