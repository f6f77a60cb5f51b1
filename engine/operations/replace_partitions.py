"""Overwrites of whole partitions: those that the new data has, and no others.

Spec: Partitioning; partition equality (SP5). Partitions are those of the spec that the data was written with, the
default spec at that time. From files of other specs, the rows that belong to a replaced partition are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import field, frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.data.arrow.arrow_partitions import partition_batches
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE, Expression, Predicate, PredicateOperator, Reference, TypedValue
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.conflict_validation import Check, CommitBase, IsolationLevel
from icecore.engine.operations.copy_on_write import LiveRows
from icecore.engine.operations.file_effects import FileEffects, discarding_on_error, produce
from icecore.engine.operations.merge_on_read import merges_on_read
from icecore.engine.operations.reusable_files import ReusableFiles, task_key
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import DoubleType, FloatType
from icecore.projections.inspect.changes_since import ChangedFile

REPLACE_PARTITIONS = "replace-partitions"
MAX_VALUES = 200

Key = tuple[bytes | None, ...]


@frozen
class ReplacePartitions:
    """Replaces the partitions of `added`, data files of one spec, by these files."""

    target: SnapshotTarget
    added: tuple[ContentFile, ...]
    base: CommitBase | None = None
    before: ReusableFiles = field(factory=ReusableFiles)

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        """The command that replaces the partitions as they are now.

        With a base, raises ConflictingCommitsError where a file of the partitions was removed or got deletes since or,
        under `serializable`, was added. Raises ValidationError where the table lost a column of the spec.
        """
        effects = FileEffects(merges_on_read(at.metadata))
        replaced = _Replaced.by(self.added, at.metadata)
        if self.base is not None and replaced.partitions:
            _check_unchanged(at, self.base, self.target.branch, replaced)
        tasks = _planned(at, at.head(self.target.branch), replaced)
        self.before.use(at.metadata)
        to_read = (t for t in tasks if t.file.spec_id != replaced.spec.spec_id and self.before.is_new(t))
        at.check_reading(sum(t.file.file_size_in_bytes for t in to_read))
        with discarding_on_error(at, effects, self.before):
            _take_partitions(at, tasks, effects, replaced, self.before)
            target = self.target
            if replaced.partitions:
                target = target.with_summary({REPLACE_PARTITIONS: "true"})
            return produce(at, target, self.added, effects, Operation.OVERWRITE)


def check_partitioned(metadata: TableMetadata) -> None:
    """Raises ValidationError for a table without partitions that could be replaced."""
    if metadata.spec().is_unpartitioned:
        raise ValidationError("a dynamic partition overwrite needs a partitioned table; overwrite() replaces it all")


@frozen
class _Replaced:
    """The partitions to replace, by their keys, and their spec."""

    spec: PartitionSpec
    fields: Schema
    partitions: Mapping[Key, tuple[Any, ...]]

    @classmethod
    def by(cls, files: Sequence[ContentFile], metadata: TableMetadata) -> _Replaced:
        """The files' partitions. Raises ValidationError for files of several specs, or a spec that lost a column."""
        spec, fields = metadata.spec_by_id(files[0].spec_id) if files else metadata.spec(), metadata.all_fields
        if any(f.spec_id != spec.spec_id for f in files):
            raise ValidationError("the files that replace partitions must be of one partition spec")
        spec.check(metadata.schema())
        return cls(spec, fields, {spec.key(f.partition, fields): f.partition for f in files})

    def has(self, partition: tuple[Any, ...]) -> bool:
        """Whether a partition of the spec is replaced."""
        return self.spec.key(partition, self.fields) in self.partitions


def _check_unchanged(at: PlanContext, base: CommitBase, branch: str, replaced: _Replaced) -> None:
    def concerns(file: ChangedFile) -> bool:
        return file.spec_id != replaced.spec.spec_id or replaced.has(file.partition)

    wanted = base.conflict_filter or _may_hold(at.metadata, replaced)
    check = Check.of(at, base, branch)
    check.unchanged(wanted, concerns, added=base.level is IsolationLevel.SERIALIZABLE)


def _planned(at: PlanContext, snapshot: Snapshot | None, replaced: _Replaced) -> list[FileScanTask]:
    if snapshot is None or not replaced.partitions:
        return []
    return at.planner.tasks(at.state, snapshot, _may_hold(at.metadata, replaced), at.metadata.schema())


def _take_partitions(
    at: PlanContext, tasks: Iterable[FileScanTask], effects: FileEffects, replaced: _Replaced, before: ReusableFiles
) -> None:
    metadata, deletes = at.metadata, DeleteCache()
    for task in tasks:
        if task.file.spec_id == replaced.spec.spec_id:
            if replaced.has(task.file.partition):
                effects.gone.append(task.file.file_path)
            continue
        rows = LiveRows(task, metadata, at.storage, deletes)
        if before.is_new(task):
            before.selected[task_key(task)] = rows.chosen(lambda some: _rows_in(some, metadata, replaced))
        effects.take(rows, before.selected[task_key(task)], before)
    effects.write(at, deletes, before)


def _may_hold(metadata: TableMetadata, replaced: _Replaced) -> Expression:
    """A filter on columns with identity partitions that every row of the partitions satisfies."""
    schema = metadata.schema()
    condition: Expression = TRUE
    columns = list(zip(*replaced.partitions.values(), strict=True))
    for f, values in zip(replaced.spec.fields, columns, strict=True):
        source = schema.get_field(f.source_id)
        if source is None or not isinstance(f.transform, IdentityTransform):
            continue
        kind = f.result_type(schema)
        distinct = {v for v in values if v is not None}
        if isinstance(kind, (FloatType, DoubleType)) or len(distinct) > MAX_VALUES:
            continue
        term = Reference(schema.name_of(f.source_id))
        tests: list[Expression] = []
        if distinct:
            tests.append(Predicate(PredicateOperator.IN, term, tuple(TypedValue(kind, v) for v in distinct)))
        if None in values:
            tests.append(Predicate(PredicateOperator.IS_NULL, term))
        condition = and_(condition, or_(*tests))
    return condition


def _rows_in(rows: pa.Table, metadata: TableMetadata, replaced: _Replaced) -> npt.NDArray[np.bool_]:
    """A mask of the rows that the spec puts into one of the partitions."""
    place = "\x00place"
    numbered = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
    mask = np.zeros(rows.num_rows, dtype=bool)
    for partition, group in partition_batches(numbered, replaced.spec, metadata.schema()):
        if replaced.has(partition):
            mask[group[place].to_numpy()] = True
    return mask
