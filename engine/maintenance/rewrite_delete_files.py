"""Rewrites of delete files: small position delete files merged, and dangling ones dropped.

Spec: Row-level Deletes (D1: in v3 position delete files become vectors; D2), Snapshots (L4: replace).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field, frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import TRUE
from icecore.engine.maintenance.compaction_groups import RewriteOptions
from icecore.engine.maintenance.rewrite_data_files import RewriteResult
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.file_effects import FileEffects, discarding_on_error, produce
from icecore.engine.operations.merge_on_read import write_deletes
from icecore.engine.operations.reusable_files import FileKey, ReusableFiles, task_key
from icecore.engine.properties.table_properties import DELETE_GRANULARITY
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Operation
from icecore.engine.storage.file_io import Storage


@frozen
class DeleteRewriteOptions:
    """The options of a merge of delete files, with Java's names and defaults."""

    partial_progress: bool = False
    max_commits: int = 10
    remove_dangling_deletes: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> DeleteRewriteOptions:
        """The options by Java's names; values are numbers, booleans or texts of them. Raises ValidationError."""
        given = RewriteOptions(options)
        chosen = cls(
            given.boolean("partial-progress.enabled", False),
            given.number("partial-progress.max-commits", 10),
            given.boolean("remove-dangling-deletes", False),
        )
        given.check_all_used()
        return chosen


class DeletesWriter(Protocol):
    """The writer of data files' deletes, merged into one place for each data file, in this process or elsewhere."""

    def __call__(
        self, tasks: Sequence[FileScanTask], metadata: TableMetadata, storage: Storage, /
    ) -> Sequence[ContentFile]:
        """The delete files, none for a data file that loses no row."""


def write_merged(tasks: Sequence[FileScanTask], metadata: TableMetadata, storage: Storage) -> list[ContentFile]:
    """The delete files, written in this process. Raises MissingFileError, CorruptFileError, StorageError."""
    deletes = DeleteCache()
    found = [(t, deletes.deleted_positions(storage, t.file.file_path, t.delete_files)) for t in tasks]
    selected = [(t, positions) for t, positions in found if len(positions)]
    return write_deletes(selected, metadata, storage, deletes) if selected else []


@define
class DeleteRewrite:
    """A merge of position delete files of a branch; `result` is that of the latest planning, final after the commit.

    `paths` are the data files that it is about, None for all.
    """

    target: SnapshotTarget
    result: RewriteResult = RewriteResult()
    paths: Collection[str] | None = None
    writer: DeletesWriter = write_merged
    _reusable: ReusableFiles = field(factory=ReusableFiles)

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command for the head of the branch as it is now; None where there is nothing to rewrite.

        In v2 several position delete files of a data file become one, in v3 any become a deletion vector. A delete file
        is removed where all data files that it applies to are among those with merged deletes.
        """
        snapshot, self.result = at.head(self.target.branch), RewriteResult()
        if snapshot is None:
            return None
        tasks = at.planner.tasks(at.state, snapshot, TRUE, at.metadata.schema())
        chosen = [t for t in worth_merging(tasks, at.metadata) if self.paths is None or t.file.file_path in self.paths]
        if not chosen:
            return None
        self._reusable.use(at.metadata)
        new = [t for t in chosen if task_key(t) not in self._reusable.deletes]
        # If this raises, files that were written already are kept for the next attempt.
        size = sum({d.file_path: d.file_size_in_bytes for t in new for d in t.delete_files}.values())
        at.check_reading(size, is_elsewhere=self.writer is not write_merged)
        effects = FileEffects(True)
        with discarding_on_error(at, effects, self._reusable):
            effects.added += self._merged(at, chosen, new)
            if at.metadata.format_version >= 3:
                effects.superseded += [f.referenced_data_file for f in effects.added if f.referenced_data_file]
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

    def _merged(
        self, at: PlanContext, chosen: Sequence[FileScanTask], new: Sequence[FileScanTask]
    ) -> list[ContentFile]:
        """The delete files of the chosen: `new` ones, and those that an earlier planning wrote for unchanged files."""
        known = [f for t in chosen if (f := self._reusable.deletes.get(task_key(t))) is not None]
        written = list(self.writer(new, at.metadata, at.storage)) if new else []
        self._reusable.note_deletes(new, written)
        return [*known, *written]


@define
class DanglingDeletes:
    """A removal of delete files that apply to no live data file of a branch; `result` as in a DeleteRewrite."""

    target: SnapshotTarget
    result: RewriteResult = RewriteResult()

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command for the head of the branch as it is now; None where no delete file is dangling."""
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
                live = at.repository.lists.live_entries(at.state, listed)
                keys = zip(live["file_path"].to_pylist(), live["content_offset"].to_pylist(), strict=True)
                dangling += [key for key in keys if key not in needed]
        if not dangling:
            return None
        effects = FileEffects(False, dropped=dangling)
        self.result = RewriteResult(removed_delete_files=len(dangling))
        return produce(at, self.target, (), effects, Operation.REPLACE)


def _position_deletes(task: FileScanTask) -> list[ContentFile]:
    return [d for d in task.delete_files if d.content is DataFileContent.POSITION_DELETES]


def worth_merging(tasks: Sequence[FileScanTask], metadata: TableMetadata) -> list[FileScanTask]:
    """The data files whose position deletes are to be merged: several files, in v3 any that is no deletion vector.

    With each come those that share delete files with it: such a file goes only where all of these have merged ones.
    """
    worthy = {t.file.file_path for t in tasks if _is_worth_it(t, metadata.format_version)}
    groups = sharing_deletes([t for t in tasks if _position_deletes(t)], metadata) if worthy else ()
    return [t for group in groups if any(t.file.file_path in worthy for t in group) for t in group]


def sharing_deletes(tasks: Sequence[FileScanTask], metadata: TableMetadata) -> list[list[FileScanTask]]:
    """The data files in groups; no two groups share a position delete file, before the merge or after it."""
    shares_partition = metadata.format_version < 3 and DELETE_GRANULARITY.or_default(metadata.properties) == "partition"
    parents, first = list(range(len(tasks))), dict[object, int]()

    def root(i: int) -> int:
        while parents[i] != i:
            parents[i] = i = parents[parents[i]]
        return i

    for i, task in enumerate(tasks):
        keys: list[object] = [(d.file_path, d.content_offset) for d in _position_deletes(task)]
        if shares_partition:
            spec = metadata.spec_by_id(task.file.spec_id)
            keys.append((spec.spec_id, spec.key(task.file.partition, metadata.all_fields)))
        for key in keys:
            parents[root(i)] = root(first.setdefault(key, i))
    groups: dict[int, list[FileScanTask]] = defaultdict(list)
    for i, task in enumerate(tasks):
        groups[root(i)].append(task)
    return list(groups.values())


def _is_worth_it(task: FileScanTask, format_version: int) -> bool:
    found = _position_deletes(task)
    if format_version >= 3:
        return any(not d.is_deletion_vector for d in found)
    return len(found) > 1
