"""The files of branches that commits changed, whoever made them: the live ones before and after are compared.

Only manifests that one list has and the other lacks are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, with_status
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.branch_files import BranchChange
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.entries.carried_entries import file_keys


def net_changes(
    repository: Repository, events: Iterable[Event], before: TableState, after: TableState
) -> list[BranchChange]:
    """The net change of each branch that commits made snapshots on, and that is there after them.

    `before` and `after` are the states around them. Raises StorageError, CorruptFileError, CorruptLogError.
    """
    made: dict[str, list[Snapshot]] = {}
    for event in events:
        snapshots, branches = snapshots_of(event)
        for snapshot in snapshots:
            if snapshot.snapshot_id in branches:
                made.setdefault(branches[snapshot.snapshot_id], []).append(snapshot)
    found = []
    for branch, snapshots in made.items():
        if (ref := after.metadata.refs.get(branch)) is not None:
            base = _base(before.metadata, after.metadata, branch, snapshots)
            head = after.metadata.find_snapshot(ref.snapshot_id)
            removed, added = changed_files(repository, after, base, head)
            operations = {s.operation for s in snapshots}
            found.append(BranchChange(branch, operations.pop() if len(operations) == 1 else None, added, removed))
    return [c for c in found if c.added.num_rows or c.removed.num_rows]


def _base(before: TableMetadata, after: TableMetadata, branch: str, made: Sequence[Snapshot]) -> Snapshot | None:
    """The head of a branch before the snapshots were made on it; where it was made with them, what it began with."""
    if (ref := before.refs.get(branch)) is not None:
        return before.find_snapshot(ref.snapshot_id)
    ids = {s.snapshot_id for s in made}
    parent = next((s.parent_snapshot_id for s in made if s.parent_snapshot_id not in ids), None)
    return None if parent is None else after.snapshot_by_id(parent)


def changed_files(
    repository: Repository, state: TableState, before: Snapshot | None, after: Snapshot
) -> tuple[pa.Table, pa.Table]:
    """The canonical entries of the files that are live before only, and after only, inherited values filled in.

    Raises StorageError, CorruptFileError, CorruptLogError.
    """
    old, new = (repository.list_manifests(state, s) if s else () for s in (before, after))
    shared = {m.manifest.manifest_path for m in old} & {m.manifest.manifest_path for m in new}
    gone, come = (_live(repository, state, listed, shared) for listed in (old, new))
    were, are = (file_keys(entries).combine_chunks() for entries in (gone, come))
    removed, added = gone.filter(pc.invert(pc.is_in(were, are))), come.filter(pc.invert(pc.is_in(are, were)))
    return with_status(removed, ManifestEntryStatus.DELETED), with_status(added, ManifestEntryStatus.ADDED)


def _live(
    repository: Repository, state: TableState, manifests: Iterable[ListedManifest], left_out: Collection[str]
) -> pa.Table:
    tables = [
        repository.lists.live_entries(state, listed).select(ENTRY_SCHEMA.names).cast(ENTRY_SCHEMA)
        for listed in manifests
        if listed.manifest.has_live_files and listed.manifest.manifest_path not in left_out
    ]
    return pa.concat_tables([ENTRY_SCHEMA.empty_table(), *tables])
