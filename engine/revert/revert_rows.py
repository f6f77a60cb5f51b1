"""The way back of a branch's files: those that the commit added are removed, those it removed are added as they were.

A file that comes back keeps its data sequence number and its first row id, so that the very delete files which applied
to it before the commit apply again. That is right only where the branch has the same delete files as then; otherwise
the commit is not undone, and neither is one that added or removed delete files itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.new_manifests import ManifestRemoval
from icecore.engine.errors import CorruptLogError, NoSuchSnapshotError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.events.manifest_changes import changes_of
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, with_status
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.revert_metadata import Kinds, Refuse
from icecore.engine.spec.content_file import DataFileContent, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.spec.updates.table_update import (
    AddSnapshot,
    RemovePartitionSpecs,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetSnapshotRef,
)
from icecore.projections.entries.carried_entries import file_keys

_ROW_UPDATES: Kinds = (AddSnapshot, SetSnapshotRef, RemoveSnapshotRef)


@frozen
class BranchChange:
    """The net change of a commit to one branch: canonical entries of the files that it added and removed."""

    branch: str
    operation: str | None
    added: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)


def net_changes(repository: Repository, event: Event) -> list[BranchChange]:
    """The net change of each branch that the commit made snapshots on.

    Raises ValidationError for changes that can't be undone: delete files, snapshots of other engines; CorruptLogError.
    """
    updates = table_updates(event)
    changes = changes_of(event.payload, event.position)
    snapshots = {u.snapshot.snapshot_id: u.snapshot for u in updates if isinstance(u, AddSnapshot)}
    if missing := sorted(snapshots.keys() - changes.keys()):
        raise ValidationError(f"position {event.position}: the files of snapshots {missing} are not in the log")
    branches = {u.ref.snapshot_id: u.ref_name for u in updates if isinstance(u, SetSnapshotRef)}
    content = repository.store.entries(event.position)
    parts: dict[str, list[pa.Table]] = {}
    operations: dict[str, str | None] = {}
    for snapshot_id, change in changes.items():
        if snapshot_id not in branches:
            continue
        branch = branches[snapshot_id]
        operations[branch] = snapshots[snapshot_id].operation
        for listed in change.added:
            if listed.position == event.position and listed.row_count:
                if content is None:
                    raise CorruptLogError(f"position {event.position}: its content files are missing")
                parts.setdefault(branch, []).append(content.slice(listed.row_offset, listed.row_count))
    net = [_net(event, branch, operations[branch], pa.concat_tables(tables)) for branch, tables in parts.items()]
    return [c for c in net if c.added.num_rows or c.removed.num_rows]


def _net(event: Event, branch: str, operation: str | None, entries: pa.Table) -> BranchChange:
    if pc.any(pc.not_equal(entries["content"], int(DataFileContent.DATA))).as_py():
        raise ValidationError(
            f"position {event.position} can't be reverted: it added or removed delete files; roll back to the snapshot "
            f"before it instead"
        )
    first: dict[str, int] = {}
    last: dict[str, tuple[int, int]] = {}
    for i, (path, status) in enumerate(
        zip(entries["file_path"].to_pylist(), entries["status"].to_pylist(), strict=True)
    ):
        if status != ManifestEntryStatus.EXISTING:
            first.setdefault(path, status)
            last[path] = (status, i)
    net = {
        kind: entries.take(pa.array([i for p, (s, i) in last.items() if s == first[p] == kind], pa.int64()))
        for kind in (ManifestEntryStatus.ADDED, ManifestEntryStatus.DELETED)
    }
    return BranchChange(branch, operation, net[ManifestEntryStatus.ADDED], net[ManifestEntryStatus.DELETED])


def undo_rows(
    repository: Repository,
    event: Event,
    change: BranchChange,
    before: TableState,
    now: TableState,
    snapshot_id: int,
    refuse: Refuse,
) -> ProduceSnapshot:
    """The snapshot that takes a branch's change back on its present head.

    `refuse` makes the error where a later commit stands in the way.
    """
    try:
        head = now.metadata.snapshot_by_ref(change.branch)
    except NoSuchSnapshotError:
        raise refuse(f"the branch {change.branch!r} is gone", _ROW_UPDATES) from None
    added = pc.unique(change.added["file_path"])
    removed = pc.unique(change.removed["file_path"])
    live = _live_of(repository, now, head, pa.concat_arrays([added, removed]))
    if gone := [p for p in added.to_pylist() if p not in live]:
        raise refuse(f"{_files(gone)} that it added left {change.branch} since", _ROW_UPDATES)
    if back := [p for p in removed.to_pylist() if p in live]:
        raise refuse(f"{_files(back)} that it removed came back to {change.branch} since", _ROW_UPDATES)
    if len(removed):
        _check_can_come_back(repository, change, before, now, head, refuse)
    return ProduceSnapshot(
        _operation(change),
        snapshot_id,
        change.branch,
        added=_as_added(change.removed),
        removals=_removals(repository, now, head, added),
        is_planned=True,
        base_snapshot_id=head.snapshot_id if head else None,
    )


def _operation(change: BranchChange) -> Operation:
    """The opposite of the commit's operation (L4)."""
    if change.operation == Operation.REPLACE:
        return Operation.REPLACE
    if change.removed.num_rows:
        return Operation.OVERWRITE if change.added.num_rows else Operation.APPEND
    return Operation.DELETE


def _files(paths: Iterable[str]) -> str:
    some = list(paths)
    return f"{len(some)} files ({some[0]}, ...)" if len(some) > 1 else f"the file {some[0]}"


def _live_of(repository: Repository, state: TableState, head: Snapshot | None, paths: pa.Array) -> set[str]:
    """The data files among the paths that are live in a snapshot."""
    found: set[str] = set()
    for entries in _live(repository, state, head, ManifestContent.DATA):
        mask = pc.is_in(entries["file_path"], paths)
        found.update(entries["file_path"].filter(mask).to_pylist())
    return found


def _live(
    repository: Repository, state: TableState, snapshot: Snapshot | None, content: ManifestContent
) -> Iterable[pa.Table]:
    for listed in repository.list_manifests(state, snapshot) if snapshot else ():
        if listed.manifest.content is content and listed.manifest.has_live_files:
            yield repository.entries.live(state.stream, listed, repository.storage_of(state))


def _check_can_come_back(
    repository: Repository,
    change: BranchChange,
    before: TableState,
    now: TableState,
    head: Snapshot | None,
    refuse: Refuse,
) -> None:
    """The files are on storage, their specs are in the table, and the same deletes apply to them as then (SP3)."""
    specs = set(change.removed["spec_id"].to_pylist())
    if unknown := sorted(specs - now.metadata.specs.keys()):
        raise refuse(f"the partition specs {unknown} of its files are gone", (RemovePartitionSpecs,))
    if change.removed["sequence_number"].null_count:
        raise ValidationError("the files that it removed have no sequence numbers in the log")
    parent = before.metadata.snapshot_by_ref(change.branch)
    then = _deletes(repository, before, parent)
    if then != _deletes(repository, now, head):
        raise refuse(f"{change.branch} has other delete files than then, which may apply to its files", _ROW_UPDATES)
    storage = repository.storage_of(now)
    if missing := [p for p in change.removed["file_path"].to_pylist() if not storage.exists(p)]:
        raise refuse(f"{_files(missing)} that it removed was deleted from storage", (RemoveSnapshots,))


def _deletes(repository: Repository, state: TableState, snapshot: Snapshot | None) -> set[str]:
    tables = _live(repository, state, snapshot, ManifestContent.DELETES)
    return {key for entries in tables for key in file_keys(entries).to_pylist()}


def _as_added(removed: pa.Table) -> pa.Table:
    """Removed entries as new ones: their data sequence numbers and row ids stay, the rest is inherited (M2)."""
    added = with_status(removed, ManifestEntryStatus.ADDED)
    for name in ("snapshot_id", "file_sequence_number"):
        index = ENTRY_SCHEMA.get_field_index(name)
        added = added.set_column(index, ENTRY_SCHEMA.field(name), pa.nulls(added.num_rows, pa.int64()))
    return added


def _removals(
    repository: Repository, state: TableState, head: Snapshot | None, paths: pa.Array
) -> tuple[ManifestRemoval, ...]:
    """For each manifest that holds one of the files, or a delete file that only says something of one: its split."""
    out = []
    for listed in repository.list_manifests(state, head) if head and len(paths) else ():
        if not listed.manifest.has_live_files:
            continue
        column = "file_path" if listed.manifest.content is ManifestContent.DATA else "referenced_data_file"
        live = repository.entries.live(state.stream, listed, repository.storage_of(state))
        mask = pc.is_in(live[column], paths)
        if pc.any(mask).as_py():
            out.append(ManifestRemoval(listed, live.filter(pc.invert(mask)), live.filter(mask)))
    return tuple(out)
