"""Row deltas: data files, equality deletes, and deletes by position that were written already.

Spec: Row-level Deletes (D1, D2), Scan Planning (SP2, SP3, SP7).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen

from icecore.engine.commit.added_files import added_entries, check_data_files
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.data.read.apply_deletes import DeleteCache, read_position_deletes
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.deletion_vector_writer import DeletedRows, write_deletion_vectors
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.conflict_validation import Check, CommitBase
from icecore.engine.operations.file_effects import FileEffects, produce
from icecore.engine.operations.reusable_files import ReusableFiles, task_key
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Operation
from icecore.engine.storage.file_io import Storage
from icecore.projections.plan.deletes.lost_values import Losable, losable_fields, may_be_same


@frozen
class DeltaFiles:
    """Data files and delete files to add, checked against a table, and their manifest entries."""

    data_files: tuple[ContentFile, ...]
    delete_files: tuple[ContentFile, ...]
    entries: pa.Table

    @classmethod
    def of(
        cls, data_files: Iterable[ContentFile], delete_files: Iterable[ContentFile], metadata: TableMetadata
    ) -> DeltaFiles:
        """The files to add. Raises ValidationError for files that the table can't have."""
        deletes, added = tuple(delete_files), check_data_files(data_files)
        check_delete_files(deletes, metadata)
        return cls(added, deletes, added_entries((*added, *deletes), metadata))

    @property
    def all(self) -> tuple[ContentFile, ...]:
        """All files."""
        return (*self.data_files, *self.delete_files)

    @property
    def has_positions(self) -> bool:
        """Whether rows are deleted by position, a decision on a base."""
        return any(f.content is DataFileContent.POSITION_DELETES for f in self.delete_files)

    @property
    def operation(self) -> Operation:
        """The operation of a snapshot of these files (L4)."""
        if not self.data_files:
            return Operation.DELETE
        return Operation.OVERWRITE if self.delete_files else Operation.APPEND


@frozen
class RowDelta:
    """Data and delete files added together; deletes apply to earlier rows, those by position to the added rows too."""

    target: SnapshotTarget
    base: CommitBase
    files: DeltaFiles
    before: ReusableFiles

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        """The command for the head of the branch as it is now.

        A deletion vector that lacks earlier deletes of its data file is written again with them (D2). Raises
        ConflictingCommitsError where a data file that deletes name was removed or got other deletes since the base or,
        under `serializable`, rows that were read changed; ValidationError for data files that were never there or are
        in another partition (SP7), and for delete files of another format version (D1).
        """
        check_delete_files(self.files.delete_files, at.metadata)
        check = Check.of(at, self.base, self.target.branch)
        check.read(TRUE)
        names = _Names(at.storage, self.files)
        by_name = self._check_named(at, check, names)
        effects = FileEffects(True)
        merged: list[ContentFile] = []
        try:
            for f in self.files.delete_files:
                name = None if f.referenced_data_file is None else at.storage.path_key(f.referenced_data_file)
                task = None if name is None else by_name.get(name)
                if name is not None:
                    # A delete applies to the exact path that it names, so the table's spelling of it is taken.
                    f = evolve(f, referenced_data_file=task.file.file_path if task else names.added[name].file_path)
                if task is not None and f.is_deletion_vector:
                    f = _complete(task, f, at.metadata, at.storage, self.before, merged)
                    effects.superseded.append(task.file.file_path)
                effects.added.append(f)
            effects.added += self.files.data_files
            return produce(at, self.target, (), effects)
        except BaseException:
            self.before.forget()
            for f in merged:
                with contextlib.suppress(IcecoreError):
                    at.storage.unwrite(f.file_path)
            raise

    def _check_named(self, at: PlanContext, check: Check, names: _Names) -> dict[str, FileScanTask]:
        """The data files of the table that the deletes name, checked to be as they were at the base."""
        snapshot, schema = at.head(self.target.branch), at.metadata.schema()
        snapshots = [snapshot]
        if self.base.base_snapshot_id is not None:
            snapshots.append(at.state.metadata.find_snapshot(self.base.base_snapshot_id))
        planned = [at.planner.plan(at.state, s, TRUE, schema).files["file_path"] for s in snapshots if s is not None]
        there = names.resolved(planned)
        unknown = names.wanted - there.keys()
        if unknown:
            raise ValidationError(f"deletes name {min(unknown)}, which is not in the snapshot that they were made for")
        paths = [there[name] for name in names.wanted]
        check.touched(paths)
        tasks: Iterable[FileScanTask] = ()
        if snapshot is not None and paths:
            tasks = at.planner.tasks(at.state, snapshot, TRUE, schema, paths=paths)
        by_name = {at.storage.path_key(t.file.file_path): t for t in tasks}
        if missing := names.wanted - by_name.keys():
            raise ValidationError(f"deletes name {there[min(missing)]}, which is not in the snapshot any more")
        names.check_partitions(at.metadata, {**{n: t.file for n, t in by_name.items()}, **names.added})
        return by_name


def check_delete_files(files: Iterable[ContentFile], metadata: TableMetadata) -> None:
    """Raises ValidationError for delete files that a table of this format version can't have (D1, D2)."""
    version = metadata.format_version
    for f in files:
        if not isinstance(f, ContentFile):
            raise ValidationError(f"files are described by ContentFile, found {f!r:.100}")
        if f.content is DataFileContent.DATA:
            raise ValidationError(f"{f.file_path}: expected a delete file, found a data file")
        if version < 2:
            raise ValidationError(f"{f.file_path}: a v1 table has no delete files (D1)")
        if f.content is DataFileContent.EQUALITY_DELETES:
            continue
        if f.is_deletion_vector != (version >= 3):
            expected = "deletion vectors" if version >= 3 else "position delete files"
            raise ValidationError(f"{f.file_path}: a v{version} table takes {expected} for deletes by position (D1)")
        if f.is_deletion_vector and None in (f.referenced_data_file, f.content_offset, f.content_size_in_bytes):
            raise ValidationError(f"{f.file_path}: a deletion vector names its data file, its offset and its size")


class _Names:
    """The data files that deletes by position name: `wanted` are those of the table, `added` the new ones."""

    def __init__(self, storage: Storage, delta: DeltaFiles) -> None:
        self.added = {storage.path_key(f.file_path): f for f in delta.data_files}
        self.storage = storage
        self.written: dict[str, str] = {}
        self.by_delete: list[tuple[ContentFile, Sequence[str]]] = []
        for d in delta.delete_files:
            if d.content is DataFileContent.POSITION_DELETES:
                named: set[str] = set()
                if d.referenced_data_file:
                    name = storage.path_key(d.referenced_data_file)
                    if d.is_deletion_vector and name in self.written:
                        raise ValidationError(
                            f"{d.referenced_data_file} must have one deletion vector, found more (D2)"
                        )
                    named, self.written[name] = {name}, d.referenced_data_file
                if not d.is_deletion_vector:
                    named |= read_position_deletes(storage, d).keys()
                self.by_delete.append((d, sorted(named)))
        self.wanted = {n for _, named in self.by_delete for n in named} - self.added.keys()

    def resolved(self, planned: Iterable[pa.ChunkedArray]) -> dict[str, str]:
        """The paths of the wanted files as the table has them, as far as it does."""
        found: dict[str, str] = {}
        for paths in planned:
            exact = pa.array([self.written[n] for n in self.wanted if n in self.written], pa.string())
            for path in paths.filter(pc.is_in(paths, exact)).to_pylist():
                found.setdefault(self.storage.path_key(path), path)
            if self.wanted - found.keys():
                # A path may be written in several ways.
                for path in paths.to_pylist():
                    found.setdefault(self.storage.path_key(path), path)
        return {n: p for n, p in found.items() if n in self.wanted}

    def check_partitions(self, metadata: TableMetadata, files: Mapping[str, ContentFile]) -> None:
        """Raises ValidationError where a delete file is in another partition than a file that it names (SP7)."""
        losable = losable_fields(metadata)
        for d, named in self.by_delete:
            for name in named:
                if not _are_together(metadata, d, files[name], losable):
                    raise ValidationError(
                        f"{d.file_path} deletes rows of {files[name].file_path}, which is in another partition (SP7)"
                    )


def _are_together(metadata: TableMetadata, one: ContentFile, other: ContentFile, losable: Losable) -> bool:
    """Whether two files may be of one partition; a partition value that was lost may be any."""
    if one.spec_id != other.spec_id:
        return False
    spec, fields = metadata.spec_by_id(one.spec_id), metadata.all_fields
    a, b = spec.key(one.partition, fields), spec.key(other.partition, fields)
    return may_be_same(a, b, losable.get(spec.spec_id, (False,) * len(spec.fields)))


def _complete(
    task: FileScanTask,
    vector: ContentFile,
    metadata: TableMetadata,
    storage: Storage,
    written: ReusableFiles,
    merged: list[ContentFile],
) -> ContentFile:
    """The vector, or a new one with its data file's earlier deletes too, which is appended to `merged`."""
    key = task_key(task)
    if key in written.deletes:
        return written.deletes[key]
    cache, path = DeleteCache(), task.file.file_path
    new = cache.deleted_positions(storage, path, [vector])
    # Writers that didn't know a number of records have left -1 behind.
    if len(new) and 0 <= task.file.record_count <= int(new[-1]):
        raise ValidationError(
            f"{vector.file_path} deletes row {int(new[-1])} of {path}, which has {task.file.record_count} rows"
        )
    old = cache.deleted_positions(storage, path, task.delete_files)
    if not len(np.setdiff1d(old, new, assume_unique=True)):
        return vector
    rows = DeletedRows(np.union1d(old, new), task.file.spec_id, task.file.partition)
    location = DataLocations.of(metadata.location, metadata.properties).new(f"{uuid.uuid4()}-deletes.puffin")
    [whole] = write_deletion_vectors(storage, location, {path: rows})
    written.deletes[key] = whole
    merged.append(whole)
    return whole
