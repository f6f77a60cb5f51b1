"""Compaction: data files rewritten as larger or sorted ones, with deletes applied and the rows' lineage kept.

Spec: Snapshots (L4: replace changes no row), Row Lineage (RL6), Sequence Numbers (M3).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, evolve, field, frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.data.read.read_tasks import DeleteCache, read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import IcecoreError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.maintenance.compaction_groups import CompactionOptions, FileGroup
from icecore.engine.metadata.name_mapping_changes import table_name_mapping
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.copy_on_write import lineage_schema
from icecore.engine.operations.file_effects import FileEffects, produce
from icecore.engine.operations.reusable_files import FileKey, table_shape
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.table_properties import TARGET_FILE_SIZE
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import LINEAGE, with_columns
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.spec.sort import SortOrder
from icecore.engine.storage.file_io import Storage

SORTED_AS_A_WHOLE_BYTES = 256 * 1024 * 1024
_SEQUENCE_NUMBER = ENTRY_SCHEMA.get_field_index("sequence_number")
_Key = tuple[tuple[str, tuple[FileKey, ...]], ...]


@frozen
class RewriteResult:
    """The result of a rewrite: the numbers of data files and delete files removed, and of files added.

    After a dry run they are what the rewrite would give, and `outcomes` has its commits.
    """

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


@define
class Compaction:
    """Groups to be rewritten in one commit; `result` is that of the latest planning, final after the commit."""

    target: SnapshotTarget
    options: CompactionOptions
    order: SortOrder | None
    groups: list[_Written]
    result: RewriteResult = field(factory=RewriteResult)
    _shape: Any = None
    _base_snapshot_id: int | None = None

    @classmethod
    def of(
        cls, target: SnapshotTarget, options: CompactionOptions, order: SortOrder | None, groups: Sequence[FileGroup]
    ) -> Compaction:
        """The compaction of groups of files, sorted by an order or not."""
        return cls(target, options, order, [_Written(g) for g in groups])

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command for the head of the branch as it is now.

        A group whose files are unchanged keeps the files that were written for it; one of whose files some were
        removed, or got deletes, is written again from those that are live. So no concurrent delete is lost, and no row
        of it comes back.
        """
        metadata, snapshot = at.metadata, at.head(self.target.branch)
        if snapshot is None:
            return None
        self.use(metadata, snapshot)
        keeps_number = self.options.use_starting_sequence_number and metadata.format_version >= 2
        paths = {p for g in self.groups for p in g.group.paths}
        tasks = at.planner.tasks(at.state, snapshot, TRUE, metadata.schema(), paths=paths)
        by_path = {t.file.file_path: t for t in tasks}
        try:
            for i, written in enumerate(self.groups):
                live = [by_path[p] for p in written.group.paths if p in by_path]
                key = _group_key(live, keeps_number)
                if live and key != written.key:
                    again = _Written(written.group, key, (), sum(t.file.file_size_in_bytes for t in live))
                    again.sequence_number = snapshot.sequence_number if keeps_number else None
                    self.groups[i] = again
                    again.added = write_group(live, metadata, at.storage, self.options, self.order)
                elif not live:
                    self.groups[i] = _Written(written.group)
            return self._command(at, by_path)
        except BaseException:
            for f in (f for g in self.groups for f in g.added):
                with contextlib.suppress(IcecoreError):
                    at.storage.delete(f.file_path)
            self.forget()
            raise

    def _command(self, at: PlanContext, by_path: Mapping[str, FileScanTask]) -> ProduceSnapshot | None:
        added = [f for g in self.groups for f in g.added]
        if not by_path:
            self.result = RewriteResult()
            return None
        effects = FileEffects(False, gone=sorted(by_path), added=added)
        command = produce(at, self.target, (), effects, Operation.REPLACE)
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
        """Forgets the written files, as once they are deleted."""
        self.groups = [_Written(g.group) for g in self.groups]


def _group_key(tasks: Sequence[FileScanTask], keeps_number: bool) -> _Key:
    """The files read and the deletes on them. Later equality deletes apply to new files that keep a number."""
    return tuple(
        (
            t.file.file_path,
            tuple(
                sorted(
                    (d.file_path, d.content_offset)
                    for d in t.delete_files
                    if not (keeps_number and d.content is DataFileContent.EQUALITY_DELETES)
                )
            ),
        )
        for t in tasks
    )


def write_group(
    tasks: Sequence[FileScanTask],
    metadata: TableMetadata,
    storage: Storage,
    options: CompactionOptions,
    order: SortOrder | None,
) -> tuple[ContentFile, ...]:
    """The live rows of the files, in new files; an order that the table does not know is not noted in them."""
    size = sum(t.file.file_size_in_bytes for t in tasks)
    has_lineage = metadata.format_version >= 3 and any(t.file.first_row_id is not None for t in tasks)
    schema = with_columns(metadata.schema(), *LINEAGE) if has_lineage else metadata.schema()
    counted = _Counted(_batches(tasks, metadata, storage, has_lineage))
    rows: Any = counted
    if order is not None and size <= SORTED_AS_A_WHOLE_BYTES:
        batches = list(counted)
        if not batches:
            return ()
        rows = pa.Table.from_batches(batches)
    files = write_data_files(
        rows,
        schema=schema,
        spec=metadata.spec_by_id(options.output_spec_id),
        location=DataLocations.of(metadata.location, metadata.properties),
        storage=storage,
        properties={**metadata.properties, TARGET_FILE_SIZE.name: str(options.output_file_size(size))},
        file_prefix=f"00000-0-{uuid.uuid4()}",
        sort_order=order,
    )
    assert sum(f.record_count for f in files) == counted.rows, "a rewrite keeps every row"
    known = order is None or any(o == order for o in metadata.sort_orders)
    return tuple(f if known else evolve(f, sort_order_id=None) for f in files)


class _Counted:
    """Batches, and the number of their rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch


def _batches(
    tasks: Sequence[FileScanTask], metadata: TableMetadata, storage: Storage, has_lineage: bool
) -> Iterator[pa.RecordBatch]:
    deletes = DeleteCache()
    for task in tasks:
        for batch in read_task(
            task,
            projection=lineage_schema(metadata.schema(), metadata, task),
            table_schema=metadata.schema(),
            specs=metadata.specs,
            storage=storage,
            name_mapping=table_name_mapping(metadata),
            table_schemas=metadata.schemas,
            deletes=deletes,
        ):
            if has_lineage and task.file.first_row_id is None:
                for column in LINEAGE:
                    batch = batch.append_column(pa.field(column.name, pa.int64()), pa.nulls(len(batch), pa.int64()))
            yield batch
