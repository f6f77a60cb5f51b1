"""Compaction: data files rewritten as larger or sorted ones, with deletes applied and the rows' lineage kept.

Spec: Snapshots (L4: replace changes no row), Row Lineage (RL6), Sequence Numbers (M3).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen

from icecore.engine.commit.decide import ProduceSnapshot, StaleRemovals
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.common.text import short_repr
from icecore.engine.data.arrow.sorting import RowOrder
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.group_rewrite import GroupRewrite
from icecore.engine.errors import IcecoreError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, partition_keys
from icecore.engine.maintenance.compaction_groups import CompactionOptions, FileGroup
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.equality_deletes import Place, is_for_all, places_of
from icecore.engine.operations.file_effects import FileEffects, produce
from icecore.engine.operations.reusable_files import FileKey, table_shape
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.storage.file_io import Storage

_SEQUENCE_NUMBER = ENTRY_SCHEMA.get_field_index("sequence_number")
_Key = tuple[tuple[str, int | None, tuple[FileKey, ...]], ...]


@frozen
class RewriteResult:
    """The result of a rewrite: the numbers of data files and delete files removed, and of files added.

    After a dry run they are what the rewrite would give, and `outcomes` has its commits.
    """

    __repr__ = short_repr

    rewritten_data_files: int = 0
    added_data_files: int = 0
    rewritten_bytes: int = 0
    removed_delete_files: int = 0
    added_delete_files: int = 0
    outcomes: tuple[DryRun, ...] = field(default=(), repr=False)

    def __add__(self, other: RewriteResult) -> RewriteResult:
        return RewriteResult(
            self.rewritten_data_files + other.rewritten_data_files,
            self.added_data_files + other.added_data_files,
            self.rewritten_bytes + other.rewritten_bytes,
            self.removed_delete_files + other.removed_delete_files,
            self.added_delete_files + other.added_delete_files,
            self.outcomes + other.outcomes,
        )

    def after(self, outcome: DryRun | None) -> RewriteResult:
        """The result of a transaction with that outcome: a dry run has one."""
        return self if outcome is None else evolve(self, outcomes=(outcome,))


@define
class _Written:
    """A group, the files read of it, and the files written for it."""

    group: FileGroup
    key: _Key = ()
    added: tuple[ContentFile, ...] = ()
    size: int = 0
    sequence_number: int | None = None


class GroupWriter(Protocol):
    """The writer of the live rows of groups of files, in this process or elsewhere."""

    def __call__(
        self,
        groups: Sequence[Sequence[FileScanTask]],
        metadata: TableMetadata,
        storage: Storage,
        options: CompactionOptions,
        order: RowOrder | None,
        /,
    ) -> Iterable[tuple[ContentFile, ...]]:
        """The new files of each group. If it raises, it deletes the files that it has not given yet, if it can."""


@define
class Compaction:
    """Groups to be rewritten in one commit; `result` is that of the latest planning, final after the commit."""

    target: SnapshotTarget
    options: CompactionOptions
    order: RowOrder | None
    groups: list[_Written]
    writer: GroupWriter
    result: RewriteResult = field(factory=RewriteResult)
    _shape: Any = None
    _base_snapshot_id: int | None = None

    @classmethod
    def of(
        cls, target: SnapshotTarget, options: CompactionOptions, order: RowOrder | None, groups: Sequence[FileGroup]
    ) -> Compaction:
        """The compaction of groups of files, sorted by an order or not."""
        return cls(target, options, order, [_Written(g) for g in groups], write_groups)

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command for the head of the branch as it is now.

        A group whose files are unchanged keeps the files that were written for it. A group with files that were removed
        or got deletes is written again from its live files, so no concurrent delete is lost, and no deleted row comes
        back.
        """
        metadata, snapshot = at.metadata, at.head(self.target.branch)
        if snapshot is None:
            return None
        self.use(metadata, snapshot)
        keeps_number = self.options.use_starting_sequence_number and metadata.format_version >= 2
        paths = {p for g in self.groups for p in g.group.paths}
        tasks = at.planner.tasks(at.state, snapshot, TRUE, metadata.schema(), paths=paths)
        by_path = {t.file.file_path: t for t in tasks}
        later: dict[int | None, dict[str, Place]] = {None: {}}
        due: list[tuple[_Written, list[FileScanTask]]] = []
        groups = list(self.groups)
        try:
            for i, written in enumerate(groups):
                live = [by_path[p] for p in written.group.paths if p in by_path]
                number = written.sequence_number
                if number is not None and number not in later:
                    later[number] = _equality_deletes_after(number, at, snapshot)
                key = _group_key(live, _also_for(written.added, later[number], at))
                if live and key != written.key:
                    again = _Written(written.group, key, (), sum(t.file.file_size_in_bytes for t in live))
                    again.sequence_number = snapshot.sequence_number if keeps_number else None
                    groups[i] = again
                    due.append((again, live))
                elif not live:
                    groups[i] = _Written(written.group)
            at.check_reading(sum(g.size for g, _ in due), is_elsewhere=self.writer is not write_groups)
            self.groups = groups
            if due:
                written_files = self.writer([live for _, live in due], metadata, at.storage, self.options, self.order)
                for (group, _), files in zip(due, written_files, strict=True):
                    group.added = files
            return self._command(at, by_path)
        except StaleRemovals:
            # Nothing was changed: what was written is of use to the next attempt.
            raise
        except BaseException:
            for f in (f for g in self.groups for f in g.added):
                with contextlib.suppress(IcecoreError):
                    at.storage.unwrite(f.file_path)
            self.forget()
            raise

    def _command(self, at: PlanContext, by_path: Mapping[str, FileScanTask]) -> ProduceSnapshot | None:
        added = [f for g in self.groups for f in g.added]
        if not by_path:
            self.result = RewriteResult()
            return None
        effects = FileEffects(False, gone=sorted(by_path), added=added)
        command = evolve(produce(at, self.target, (), effects, Operation.REPLACE), outlives_appends=True)
        deletes = sum(len(r.removed) for r in command.removals) - len(by_path)
        size = sum(g.size for g in self.groups)
        self.result = RewriteResult(len(by_path), len(added), size, deletes)
        numbers = {f.file_path: g.sequence_number for g in self.groups for f in g.added}
        if command.added is None or not any(n is not None for n in numbers.values()):
            return command
        column = pa.array([numbers[p] for p in command.added["file_path"].to_pylist()], pa.int64())
        entries = command.added.set_column(_SEQUENCE_NUMBER, ENTRY_SCHEMA.field(_SEQUENCE_NUMBER), column)
        return evolve(command, added=entries)

    def use(self, metadata: TableMetadata, snapshot: Snapshot) -> None:
        """Discards the files written so far where they would be written otherwise now, or the branch was rolled back.

        On a branch that was only committed to, all equality deletes that were applied are still there, and later ones
        have a higher sequence number than the new files (SP2). After a rollback neither holds.
        """
        shape, base = table_shape(metadata), self._base_snapshot_id
        if self._shape != shape or (base is not None and not metadata.is_ancestor(base, snapshot.snapshot_id)):
            self.forget()
        self._shape, self._base_snapshot_id = shape, snapshot.snapshot_id

    def forget(self) -> None:
        """Forgets the written files, as after they were deleted."""
        self.groups = [_Written(g.group) for g in self.groups]


def _group_key(tasks: Sequence[FileScanTask], later: Collection[str]) -> _Key:
    """The files read, with their row ids and their deletes, except `later` ones, which apply to the new files too."""
    return tuple(
        (
            t.file.file_path,
            t.file.first_row_id,
            tuple(sorted((d.file_path, d.content_offset) for d in t.delete_files if d.file_path not in later)),
        )
        for t in tasks
    )


def _also_for(files: Sequence[ContentFile], deletes: Mapping[str, Place], at: PlanContext) -> set[str]:
    """The paths of the deletes that apply to all of the files: other ones are of a partition that a file is not of."""
    places, metadata = places_of(files, at.metadata), at.state.metadata
    return {path for path, place in deletes.items() if is_for_all(place, places, metadata)}


def _equality_deletes_after(number: int, at: PlanContext, snapshot: Snapshot) -> dict[str, Place]:
    """The paths and partitions of equality deletes after a sequence number. A revert may bring earlier ones back."""
    found: dict[str, Place] = {}
    metadata = at.state.metadata
    for listed in at.repository.list_manifests(at.state, snapshot):
        if listed.manifest.content is ManifestContent.DELETES and listed.manifest.has_live_files:
            live = at.repository.lists.live_entries(at.state, listed)
            is_equality = pc.equal(live["content"], int(DataFileContent.EQUALITY_DELETES))
            live = live.filter(pc.and_(is_equality, pc.greater(live["sequence_number"], number)))
            places = partition_keys(live, metadata.specs, metadata.all_fields)
            found.update(zip(live["file_path"].to_pylist(), places, strict=True))
    return found


def write_group(
    tasks: Sequence[FileScanTask],
    metadata: TableMetadata,
    storage: Storage,
    options: CompactionOptions,
    order: RowOrder | None,
) -> tuple[ContentFile, ...]:
    """The live rows of the files, in new files."""
    size = sum(t.file.file_size_in_bytes for t in tasks)
    return GroupRewrite.of(metadata, storage, options.output_spec_id, order).write_again(
        tasks,
        size=options.output_file_size(size),
        prefix=f"00000-0-{uuid.uuid4()}",
    )


def write_groups(
    groups: Sequence[Sequence[FileScanTask]],
    metadata: TableMetadata,
    storage: Storage,
    options: CompactionOptions,
    order: RowOrder | None,
) -> Iterator[tuple[ContentFile, ...]]:
    """The new files of one group after another, written in this process."""
    for tasks in groups:
        yield write_group(tasks, metadata, storage, options, order)
