"""Deletes by filter: which files go as a whole, and which are written again without the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.data.add_files import describe_files
from icecore.engine.data.read import DeleteCache, read_task
from icecore.engine.data.write import write_data_files
from icecore.engine.decide import Command, ManifestRemoval, ProduceSnapshot
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.name_mapping import table_name_mapping
from icecore.engine.repository import Repository
from icecore.engine.row_filter import keep_rows
from icecore.engine.scan_task import FileScanTask
from icecore.engine.spec.content_file import ContentFile, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.state import TableState, data_folder
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

    Files whose rows all match are removed; files of which some rows may match are read, and written again without
    those that do. `metadata` is that of the transaction, whose schema new files have.
    """
    snapshot = state.metadata.snapshot_by_ref(removal.branch)
    tasks = [] if snapshot is None else planner.tasks(state, snapshot, removal.row_filter, state.metadata.schema())
    gone, kept_rows = [], []
    for task in tasks:
        if task.residual == TRUE:
            gone.append(task.file.file_path)
            continue
        before, survivors = _survivors(task, state, storage)
        if survivors.num_rows < before:
            gone.append(task.file.file_path)
            kept_rows.append((task, survivors))
    rewritten = _write_again(kept_rows, metadata, storage, removal)
    added = [*removal.added, *rewritten]
    return ProduceSnapshot(
        _operation(bool(gone), bool(added)),
        removal.snapshot_id,
        removal.branch,
        added=files_to_arrow(added, metadata.specs, metadata.all_fields, status=ManifestEntryStatus.ADDED),
        removals=_removals(repository, state, snapshot, gone),
        base_snapshot_id=snapshot.snapshot_id if snapshot else None,
        summary=removal.summary,
    )


def _operation(removed: bool, added: bool) -> Operation:
    if removed:
        return Operation.OVERWRITE if added else Operation.DELETE
    return Operation.APPEND if added else Operation.DELETE


def _survivors(task: FileScanTask, state: TableState, storage: Storage) -> tuple[int, pa.Table]:
    """The number of rows of a file that are not deleted yet, and those of them that the filter does not select."""
    metadata = state.metadata
    batches = list(
        read_task(
            task,
            projection=metadata.schema(),
            table_schema=metadata.schema(),
            specs=metadata.specs,
            storage=storage,
            name_mapping=table_name_mapping(metadata),
            deletes=DeleteCache(),
        )
    )
    if not batches:
        return 0, pa.table({})
    rows = pa.Table.from_batches(batches)
    return rows.num_rows, keep_rows(rows, task.residual, metadata.schema(), selected=False)


def _write_again(
    kept: Sequence[tuple[FileScanTask, pa.Table]], metadata: TableMetadata, storage: Storage, removal: FilterRemoval
) -> list[ContentFile]:
    import uuid

    files: list[ContentFile] = []
    for _, rows in kept:
        if rows.num_rows:
            files += write_data_files(
                rows,
                schema=metadata.schema(),
                spec=metadata.spec(),
                location=data_folder(metadata.location, metadata.properties),
                storage=storage,
                properties=metadata.properties,
                file_prefix=f"00000-0-{uuid.uuid4()}",
                sort_order=metadata.sort_order(),
            )
    return files


def _removals(
    repository: Repository, state: TableState, snapshot: Snapshot | None, gone: Sequence[str]
) -> tuple[ManifestRemoval, ...]:
    """For each data manifest that holds a file to be removed: its live entries, split."""
    if snapshot is None or not gone:
        return ()
    paths = pa.array(sorted(set(gone)), pa.string())
    out, found = [], 0
    for listed in repository.list_manifests(state, snapshot):
        if listed.manifest.content is not ManifestContent.DATA or not listed.manifest.has_live_files:
            continue
        removal = _split(repository, state, listed, paths)
        if removal is not None:
            out.append(removal)
            found += removal.removed.num_rows
    if found < len(paths):
        raise ValidationError(f"{len(paths) - found} of {len(paths)} files to remove are not in the snapshot")
    return tuple(out)


def _split(
    repository: Repository, state: TableState, listed: ListedManifest, paths: pa.Array
) -> ManifestRemoval | None:
    live = repository.entries.live(state.stream, listed, repository.storage_of(state))
    mask = pc.is_in(live["file_path"], paths)
    if not pc.any(mask).as_py():
        return None
    return ManifestRemoval(listed, live.filter(pc.invert(mask)), live.filter(mask))


def add_existing_files(
    repository: Repository,
    state: TableState,
    metadata: TableMetadata,
    file_paths: tuple[str, ...],
    branch: str,
    check_duplicate_files: bool,
) -> list[ContentFile]:
    """Descriptions of Parquet files that exist already.

    Raises ValidationError where one is given twice, is in the branch already, or does not fit the table.
    """
    repeated = sorted({p for p in file_paths if file_paths.count(p) > 1})
    if repeated:
        raise ValidationError(f"files are given twice: {repeated[:5]}")
    snapshot = state.metadata.snapshot_by_ref(branch)
    if check_duplicate_files and snapshot is not None:
        wanted = pa.array(list(file_paths), pa.string())
        for listed in repository.list_manifests(state, snapshot):
            live: Any = repository.entries.live(state.stream, listed, repository.storage_of(state))["file_path"]
            known = live.filter(pc.is_in(live, wanted)).to_pylist()
            if known:
                raise ValidationError(f"files are in the table already: {known[:5]}")
    return describe_files(
        file_paths,
        schema=metadata.schema(),
        spec=metadata.spec(),
        storage=repository.storage_of(state),
        properties=metadata.properties,
        name_mapping=table_name_mapping(metadata) or NameMapping.of_fields(metadata.schema().fields),
    )
