"""Deletes and overwrites by filter: which files go, which rows of others, and what takes their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.copy_on_write import survivors, write_again
from icecore.engine.data.read import DeleteCache
from icecore.engine.decide import Command, ManifestRemoval, ProduceSnapshot
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.merge_on_read import Positions, merges_on_read, select_rows, write_deletes
from icecore.engine.repository import Repository
from icecore.engine.scan_task import FileScanTask
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.state import TableState
from icecore.engine.storage import Storage
from icecore.projections.planner import Planner


@frozen
class FilterRemoval:
    """A delete or overwrite by filter on a branch, with the files that take the rows' place."""

    row_filter: str | Expression
    branch: str
    snapshot_id: int
    added: tuple[ContentFile, ...]
    summary: Mapping[str, str]


def plan_removal(
    repository: Repository,
    planner: Planner,
    state: TableState,
    metadata: TableMetadata,
    removal: FilterRemoval,
    storage: Storage,
) -> Command:
    """The command for the head of the branch as it is now; where the branch moves, this is called again.

    Files whose rows all match are removed. Of files of which some rows may match, the rows are found by reading; then
    they are deleted by position, or the file is written again without them, as `write.delete.mode` says. `metadata` is
    the state's, or what the transaction made of it: the filter is over its schema, which new files have.
    """
    snapshot = state.metadata.snapshot_by_ref(removal.branch)
    effects = _Effects()
    if snapshot is not None:
        tasks = planner.tasks(state, snapshot, removal.row_filter, metadata.schema())
        effects = _effects(tasks, metadata, storage)
    added = [*removal.added, *effects.added]
    return ProduceSnapshot(
        _operation(effects, bool(removal.added or any(f.content is DataFileContent.DATA for f in effects.added))),
        removal.snapshot_id,
        removal.branch,
        added=files_to_arrow(added, metadata.specs, metadata.all_fields, status=ManifestEntryStatus.ADDED),
        removals=_removals(repository, state, snapshot, effects),
        is_planned=True,
        base_snapshot_id=snapshot.snapshot_id if snapshot else None,
        summary=removal.summary,
    )


@define
class _Effects:
    """Data files that go, data files whose position deletes are replaced by a vector, and files that come."""

    gone: list[str] = field(factory=list)
    superseded: list[str] = field(factory=list)
    added: list[ContentFile] = field(factory=list)


def _effects(tasks: Iterable[FileScanTask], metadata: TableMetadata, storage: Storage) -> _Effects:
    effects, deletes = _Effects(), DeleteCache()
    by_position = merges_on_read(metadata)
    selected: list[tuple[FileScanTask, Positions]] = []
    for task in tasks:
        if task.residual == TRUE:
            effects.gone.append(task.file.file_path)
        elif by_position:
            found = select_rows(task, metadata, storage, deletes)
            if len(found.positions) == found.live_rows:
                effects.gone.append(task.file.file_path)
            elif len(found.positions):
                selected.append((task, found.positions))
        elif (rows := survivors(task, metadata, storage, deletes)) is not None:
            effects.gone.append(task.file.file_path)
            if rows.num_rows:
                effects.added += write_again(rows, metadata, storage)
    if selected:
        effects.added += write_deletes(selected, metadata, storage, deletes)
        if metadata.format_version >= 3:
            effects.superseded += [task.file.file_path for task, _ in selected]
    return effects


def _operation(effects: _Effects, adds_data: bool) -> Operation:
    """What the snapshot does (L4): a delete only removes files or adds deletes."""
    if adds_data:
        return Operation.OVERWRITE if effects.gone or effects.superseded else Operation.APPEND
    return Operation.DELETE


def _removals(
    repository: Repository, state: TableState, snapshot: Snapshot | None, effects: _Effects
) -> tuple[ManifestRemoval, ...]:
    """For each manifest that holds a file to be removed: its live entries, split.

    Beside the data files these are the delete files that only say something of them, or that a vector replaces (D2).
    """
    if snapshot is None or not (effects.gone or effects.superseded):
        return ()
    gone = pa.array(sorted(set(effects.gone)), pa.string())
    replaced = pa.array(sorted({*effects.gone, *effects.superseded}), pa.string())
    out, found = [], 0
    for listed in repository.list_manifests(state, snapshot):
        if not listed.manifest.has_live_files:
            continue
        is_data = listed.manifest.content is ManifestContent.DATA
        column, paths = ("file_path", gone) if is_data else ("referenced_data_file", replaced)
        removal = _split(repository, state, listed, column, paths)
        if removal is not None:
            out.append(removal)
            found += removal.removed.num_rows if is_data else 0
    if found < len(gone):
        raise ValidationError(f"{len(gone) - found} of {len(gone)} files to remove are not in the snapshot")
    return tuple(out)


def _split(
    repository: Repository, state: TableState, listed: ListedManifest, column: str, paths: pa.Array
) -> ManifestRemoval | None:
    live = repository.entries.live(state.stream, listed, repository.storage_of(state))
    mask = pc.is_in(live[column], paths)
    if not pc.any(mask).as_py():
        return None
    return ManifestRemoval(listed, live.filter(pc.invert(mask)), live.filter(mask))
