"""The files that an operation adds and removes, and the command that makes a snapshot of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from icecore.engine.commit.added_files import added_entries
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.new_manifests import ManifestRemoval
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.entry_arrow import path_keys
from icecore.engine.metadata.fold import TableState
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.copy_on_write import LiveRows
from icecore.engine.operations.merge_on_read import Positions, Selected, write_deletes
from icecore.engine.operations.reusable_files import FileKey, ReusableFiles, task_key
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestContent
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.projections.entries.carried_entries import file_key, file_keys


@define
class FileEffects:
    """The effects of an operation: data files to remove (`gone`), data and delete files to add (`added`), and deletes.

    `by_position` says that rows are deleted by position; else their file is written again. `marked` are data files that
    get deletes by position, `superseded` those whose position deletes a deletion vector replaces, and `dropped` delete
    files to remove without their data file.
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
        """The paths of data files that are removed or get deletes."""
        return [*self.gone, *self.marked]

    def take(self, rows: LiveRows, selected: Selected, before: ReusableFiles | None = None) -> None:
        """Deletes rows of a file; the files that an earlier attempt wrote without them are used again."""
        if not len(selected.positions):
            return
        if len(selected.positions) == selected.live_rows:
            self.gone.append(rows.task.file.file_path)
        elif self.by_position:
            self.selected.append((rows.task, selected.positions))
        else:
            rewritten, key = (before or ReusableFiles()).rewritten, task_key(rows.task)
            if key not in rewritten:
                rewritten[key] = tuple(rows.write_without(selected.positions))
            self.gone.append(rows.task.file.file_path)
            self.added += rewritten[key]

    def write(self, at: PlanContext, deletes: DeleteCache, before: ReusableFiles | None = None) -> None:
        """Writes the delete files of all rows that are deleted by position, except those of earlier attempts."""
        if not self.selected:
            return
        before = before or ReusableFiles()
        reused = [f for task, _ in self.selected if (f := before.deletes.get(task_key(task))) is not None]
        new = [(task, positions) for task, positions in self.selected if task_key(task) not in before.deletes]
        written = write_deletes(new, at.metadata, at.storage, deletes) if new else []
        before.note_deletes([task for task, _ in new], written)
        self.added += [*reused, *written]
        paths = [task.file.file_path for task, _ in self.selected]
        self.marked += paths
        if at.metadata.format_version >= 3:
            self.superseded += paths
        self.selected = []


@contextlib.contextmanager
def discarding_on_error(at: PlanContext, effects: FileEffects, before: ReusableFiles | None = None) -> Iterator[None]:
    """A context in which an error deletes the files that were written for the changes."""
    try:
        yield
    except BaseException:
        if before is not None:
            before.forget()
        for file in effects.added:
            with contextlib.suppress(IcecoreError):
                at.storage.unwrite(file.file_path)
        raise


def produce(
    at: PlanContext,
    target: SnapshotTarget,
    added: Sequence[ContentFile],
    effects: FileEffects,
    operation: Operation | None = None,
) -> ProduceSnapshot:
    """The command that makes a snapshot of the effects, and of further files to add, on the branch's head."""
    snapshot = at.head(target.branch)
    adds_data = bool(added or any(f.content is DataFileContent.DATA for f in effects.added))
    return ProduceSnapshot(
        operation or _operation(effects, adds_data),
        target.snapshot_id,
        target.branch,
        added=added_entries([*added, *effects.added], at.metadata),
        removals=removals_of(at, snapshot, effects),
        is_planned=True,
        base_snapshot_id=snapshot.snapshot_id if snapshot else None,
        written_on=at.metadata if effects.added else None,
        summary=target.summary,
    )


def _operation(effects: FileEffects, adds_data: bool) -> Operation:
    """The operation of the snapshot (L4): an append only adds data, a delete only removes files or adds deletes."""
    if not adds_data:
        return Operation.DELETE
    adds_deletes = any(f.content is not DataFileContent.DATA for f in effects.added)
    return Operation.OVERWRITE if effects.gone or effects.superseded or adds_deletes else Operation.APPEND


def removals_of(at: PlanContext, snapshot: Snapshot | None, effects: FileEffects) -> tuple[ManifestRemoval, ...]:
    """The live entries of each manifest that holds a file to be removed, split into survivors and removed ones.

    Besides the data files, delete files are removed that apply to them alone, or that a deletion vector replaces (D2).
    Raises ValidationError for a file that is not in the snapshot.
    """
    if snapshot is None or not (effects.gone or effects.superseded or effects.dropped):
        return ()
    gone = pa.array(sorted(set(effects.gone)), pa.string())
    replaced = path_keys(pa.array(sorted({*effects.gone, *effects.superseded}), pa.string()))
    dropped = pa.array(sorted(file_key(*k) for k in set(effects.dropped)), pa.string())
    out, removed_files = [], 0
    for listed in at.repository.list_manifests(at.state, snapshot):
        if not listed.manifest.has_live_files:
            continue
        is_data = listed.manifest.content is ManifestContent.DATA
        removal = _split(at, listed, gone) if is_data else _split(at, listed, replaced, dropped)
        if removal is not None:
            out.append(removal)
            removed_files += removal.removed.num_rows if is_data else 0
    if removed_files < len(gone):
        raise ValidationError(f"{len(gone) - removed_files} of {len(gone)} files to remove are not in the snapshot")
    return tuple(out)


def live_among(
    file_paths: Sequence[str], repository: Repository, state: TableState, snapshot: Snapshot | None
) -> list[str]:
    """The given paths that are live in a snapshot; only those in the first manifest that has any."""
    if snapshot is None or not file_paths:
        return []
    wanted = pa.array(file_paths, pa.string())
    for listed in repository.list_manifests(state, snapshot):
        paths = repository.lists.live_entries(state, listed)["file_path"]
        present: list[str] = paths.filter(pc.is_in(paths, wanted)).to_pylist()
        if present:
            return present
    return []


def _split(
    at: PlanContext, listed: ListedManifest, paths: pa.Array, dropped: pa.Array | None = None
) -> ManifestRemoval | None:
    """The split of data files by path, or of delete files by the data file that they name or by their own key."""
    live = at.repository.lists.live_entries(at.state, listed)
    if dropped is None:
        mask = pc.is_in(live["file_path"], paths)
    else:
        mask = pc.is_in(path_keys(live["referenced_data_file"]), paths)
        if len(dropped):
            mask = pc.or_(mask, pc.is_in(file_keys(live), dropped))
    if not pc.any(mask).as_py():
        return None
    return ManifestRemoval(listed, live.filter(pc.invert(mask)), live.filter(mask))
