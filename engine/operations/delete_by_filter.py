"""Deletes and overwrites by filter: which files go, which rows of others, and what takes their place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen

from icecore.engine.commit.added_files import added_entries
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.new_manifests import ManifestRemoval
from icecore.engine.data.read.read_tasks import DeleteCache, read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.name_mapping_changes import table_name_mapping
from icecore.engine.operations.conflict_validation import Check, CommitBase
from icecore.engine.operations.copy_on_write import lineage_schema, survivors, write_again
from icecore.engine.operations.merge_on_read import Positions, merges_on_read, select_rows, write_deletes
from icecore.engine.operations.reusable_files import FileKey, ReusableFiles, task_key
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import POS, with_columns
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.manifest_entries import file_key, file_keys
from icecore.projections.plan.planner import Planner


@frozen
class DeleteByFilter:
    """A delete or overwrite by filter on a branch, with the files that take the rows' place."""

    row_filter: str | Expression
    branch: str
    snapshot_id: int
    added: tuple[ContentFile, ...]
    summary: Mapping[str, str]
    pin: CommitBase | None = None
    before: ReusableFiles = field(factory=ReusableFiles)


def plan_delete_by_filter(
    repository: Repository,
    planner: Planner,
    state: TableState,
    metadata: TableMetadata,
    removal: DeleteByFilter,
    storage: Storage,
) -> ProduceSnapshot:
    """The command for the head of the branch as it is now; where the branch moves, this is called again.

    Files whose rows all match are removed. Of files of which some rows may match, the rows are found by reading; then
    they are deleted by position, or the file is written again without them, as `write.delete.mode` says. `metadata` is
    the state's, or what the transaction made of it: the filter is over its schema, which new files have. A pinned
    removal is of the rows that its base has; ConflictingCommitsError is raised where they are not the same any more.
    """
    effects = FileChanges(merges_on_read(metadata))
    check = removal.pin and Check.of(repository, planner, state, metadata, removal.pin, removal.branch)
    snapshot = read_snapshot(state, removal.branch, removal.pin)
    if check:
        check.read(removal.row_filter)
    with discarding_on_error(effects, storage, removal.before):
        if snapshot is not None:
            tasks = planner.tasks(state, snapshot, removal.row_filter, metadata.schema())
            removal.before.use(metadata)
            _remove_selected(tasks, effects, metadata, storage, removal.before)
        if check:
            check.touched(effects.touched, vectors=effects.by_position)
        target = SnapshotTarget(removal.branch, removal.snapshot_id, removal.summary)
        return produce(repository, state, metadata, target, removal.added, effects)


def read_snapshot(state: TableState, branch: str, pin: CommitBase | None) -> Snapshot | None:
    """The snapshot whose rows a change of rows is about: its base where it is pinned, else the branch's head."""
    if pin is None:
        return state.metadata.snapshot_by_ref(branch)
    return None if pin.base_snapshot_id is None else state.metadata.find_snapshot(pin.base_snapshot_id)


@contextlib.contextmanager
def discarding_on_error(effects: FileChanges, storage: Storage, before: ReusableFiles | None = None) -> Iterator[None]:
    """Deletes the files that were written for effects which come to nothing."""
    try:
        yield
    except BaseException:
        if before is not None:
            before.forget()
        for file in effects.added:
            with contextlib.suppress(IcecoreError):
                storage.delete(file.file_path)
        raise


@frozen
class SnapshotTarget:
    """Where a snapshot is to be made, and the properties that it is given."""

    branch: str
    snapshot_id: int
    summary: Mapping[str, str] = field(factory=dict)

    def with_summary(self, properties: Mapping[str, str]) -> SnapshotTarget:
        """The target with more properties."""
        return evolve(self, summary={**self.summary, **properties})


def produce(
    repository: Repository,
    state: TableState,
    metadata: TableMetadata,
    target: SnapshotTarget,
    added: Sequence[ContentFile],
    effects: FileChanges,
    operation: Operation | None = None,
) -> ProduceSnapshot:
    """The command that makes a snapshot of the effects on the branch's head and of files that come beside them."""
    snapshot = state.metadata.snapshot_by_ref(target.branch)
    adds_data = bool(added or any(f.content is DataFileContent.DATA for f in effects.added))
    return ProduceSnapshot(
        operation or _operation(effects, adds_data),
        target.snapshot_id,
        target.branch,
        added=added_entries([*added, *effects.added], metadata),
        removals=removals_of(repository, state, snapshot, effects),
        is_planned=True,
        base_snapshot_id=snapshot.snapshot_id if snapshot else None,
        summary=target.summary,
    )


@define
class FileChanges:
    """Data files that go, data files whose position deletes are replaced by a vector, and files that come.

    `by_position` says that rows of a file that stays are deleted by position; else the file is written again.
    `touched` are the data files that go or get deletes; `dropped` are delete files that go by themselves.
    """

    by_position: bool
    gone: list[str] = field(factory=list)
    superseded: list[str] = field(factory=list)
    added: list[ContentFile] = field(factory=list)
    selected: list[tuple[FileScanTask, Positions]] = field(factory=list)
    marked: list[str] = field(factory=list)
    dropped: list[FileKey] = field(factory=list)

    @property
    def touched(self) -> list[str]:
        return [*self.gone, *self.marked]

    def live_rows(
        self, task: FileScanTask, metadata: TableMetadata, storage: Storage, deletes: DeleteCache
    ) -> pa.Table | None:
        """All live rows of a file with their places, and with the lineage that they have; None where it has none."""
        batches = read_task(
            task,
            projection=with_columns(lineage_schema(metadata.schema(), metadata, task), POS),
            table_schema=metadata.schema(),
            specs=metadata.specs,
            storage=storage,
            name_mapping=table_name_mapping(metadata),
            table_schemas=metadata.schemas,
            deletes=deletes,
        )
        found = list(batches)
        return pa.Table.from_batches(found) if found else None

    def take(
        self,
        task: FileScanTask,
        rows: pa.Table,
        mask: npt.NDArray[np.bool_],
        metadata: TableMetadata,
        storage: Storage,
    ) -> None:
        """Takes the masked ones of a file's live rows, as `live_rows` gives them, out of the table."""
        if not mask.any():
            return
        if mask.all():
            self.gone.append(task.file.file_path)
        elif self.by_position:
            self.selected.append((task, rows[POS.name].to_numpy()[mask].astype(np.int64)))
        else:
            self.gone.append(task.file.file_path)
            self.added += write_again(rows.filter(pa.array(~mask)).drop_columns([POS.name]), metadata, storage)

    def write(
        self, metadata: TableMetadata, storage: Storage, deletes: DeleteCache, before: ReusableFiles | None = None
    ) -> None:
        """Writes the delete files of all rows that are deleted by position, but for those written before."""
        if not self.selected:
            return
        before = before or ReusableFiles()
        known = [f for task, _ in self.selected if (f := before.deletes.get(task_key(task))) is not None]
        new = [(task, positions) for task, positions in self.selected if task_key(task) not in before.deletes]
        written = write_deletes(new, metadata, storage, deletes) if new else []
        before.note_deletes([task for task, _ in new], written)
        self.added += [*known, *written]
        paths = [task.file.file_path for task, _ in self.selected]
        self.marked += paths
        if metadata.format_version >= 3:
            self.superseded += paths
        self.selected = []


def _remove_selected(
    tasks: Iterable[FileScanTask],
    effects: FileChanges,
    metadata: TableMetadata,
    storage: Storage,
    before: ReusableFiles,
) -> None:
    deletes = DeleteCache()
    for task in tasks:
        path, key = task.file.file_path, task_key(task)
        if task.residual == TRUE:
            effects.gone.append(path)
        elif effects.by_position:
            if key not in before.selected:
                before.selected[key] = select_rows(task, metadata, storage, deletes)
            found = before.selected[key]
            if len(found.positions) == found.live_rows:
                effects.gone.append(path)
            elif len(found.positions):
                effects.selected.append((task, found.positions))
        else:
            if key not in before.rewritten:
                rows = survivors(task, metadata, storage, deletes)
                written = write_again(rows, metadata, storage) if rows is not None and rows.num_rows else []
                before.rewritten[key] = None if rows is None else tuple(written)
            again = before.rewritten[key]
            if again is not None:
                effects.gone.append(path)
                effects.added += again
    effects.write(metadata, storage, deletes, before)


def _operation(effects: FileChanges, adds_data: bool) -> Operation:
    """What the snapshot does (L4): an append only adds data, a delete only removes files or adds deletes."""
    if not adds_data:
        return Operation.DELETE
    adds_deletes = any(f.content is not DataFileContent.DATA for f in effects.added)
    return Operation.OVERWRITE if effects.gone or effects.superseded or adds_deletes else Operation.APPEND


def removals_of(
    repository: Repository, state: TableState, snapshot: Snapshot | None, effects: FileChanges
) -> tuple[ManifestRemoval, ...]:
    """For each manifest that holds a file to be removed: its live entries, split.

    Beside the data files these are the delete files that only say something of them, or that a vector replaces (D2).
    """
    if snapshot is None or not (effects.gone or effects.superseded or effects.dropped):
        return ()
    gone = pa.array(sorted(set(effects.gone)), pa.string())
    replaced = pa.array(sorted({*effects.gone, *effects.superseded}), pa.string())
    dropped = pa.array(sorted(file_key(*k) for k in set(effects.dropped)), pa.string())
    out, found = [], 0
    for listed in repository.list_manifests(state, snapshot):
        if not listed.manifest.has_live_files:
            continue
        is_data = listed.manifest.content is ManifestContent.DATA
        column, paths = ("file_path", gone) if is_data else ("referenced_data_file", replaced)
        removal = _split(repository, state, listed, column, paths, None if is_data else dropped)
        if removal is not None:
            out.append(removal)
            found += removal.removed.num_rows if is_data else 0
    if found < len(gone):
        raise ValidationError(f"{len(gone) - found} of {len(gone)} files to remove are not in the snapshot")
    return tuple(out)


def _split(
    repository: Repository,
    state: TableState,
    listed: ListedManifest,
    column: str,
    paths: pa.Array,
    dropped: pa.Array | None,
) -> ManifestRemoval | None:
    live = repository.entries.live(state.stream, listed, repository.storage_of(state))
    mask = pc.is_in(live[column], paths)
    if dropped is not None and len(dropped):
        mask = pc.or_(mask, pc.is_in(file_keys(live), dropped))
    if not pc.any(mask).as_py():
        return None
    return ManifestRemoval(listed, live.filter(pc.invert(mask)), live.filter(mask))
