"""The way back of a branch's files: those that the commit added are removed, those it removed are added as they were.

A file that comes back keeps its data sequence number and its first row id, so that the very delete files which applied
to it before the commit apply again. That is right only where the same delete files apply to it as then. Delete files
and deletion vectors go and come back likewise, where the data files that they apply to are still there: see
`revert_deletes.py`. Otherwise the commit is not undone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.new_manifests import ManifestRemoval
from icecore.engine.errors import MissingFileError, NoSuchSnapshotError, ValidationError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, path_keys, with_status
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.ancestors import ancestors_since
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.branch_files import ROW_UPDATES, BranchChange, LiveFiles, data_of, deletes_of
from icecore.engine.revert.net_changes import changed_files
from icecore.engine.revert.revert_deletes import check_deletes
from icecore.engine.revert.revert_metadata import Refuse
from icecore.engine.spec.content_file import ManifestContent, ManifestEntryStatus
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.engine.spec.updates.table_update import (
    RemovePartitionSpecs,
    RemoveSnapshots,
)
from icecore.projections.entries.carried_entries import file_keys


def undo_rows(
    repository: Repository,
    change: BranchChange,
    before: TableState,
    after: TableState,
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
        raise refuse(f"the branch {change.branch!r} is gone", ROW_UPDATES) from None
    if head is None:
        # The table was replaced: its files are no files of what is there now.
        raise refuse(f"{change.branch} has no snapshot any more", ROW_UPDATES)
    # A manifest that both lists have holds no file that came or went.
    lists = [LiveFiles.of_branch(repository, state, change.branch).manifest_paths for state in (before, after)]
    untouched = set.intersection(*lists)
    live = LiveFiles.of(repository, now, head, without=untouched)
    added, removed = file_keys(change.added), file_keys(change.removed)
    if gone := live.missing(added):
        raise refuse(f"{_files(gone)} that it added left {change.branch} since", ROW_UPDATES)
    if back := live.present(removed):
        raise refuse(f"{_files(back)} that it removed came back to {change.branch} since", ROW_UPDATES)
    since = _built_upon(repository, change.branch, before, after, now, head, refuse)
    if len(removed):
        _check_there(repository, change, now, refuse)
        _check_not_rewritten(repository, change, now, since, refuse)
    check_deletes(repository, change, before, after, now, refuse)
    return ProduceSnapshot(
        _operation(change),
        snapshot_id,
        change.branch,
        added=_as_added(change.removed),
        removals=_removals(repository, now, head, change.added, without=untouched),
        is_planned=True,
        base_snapshot_id=head.snapshot_id,
    )


def _operation(change: BranchChange) -> Operation:
    """The opposite of the commits' operation (L4)."""
    if change.operation == Operation.REPLACE:
        return Operation.REPLACE
    if deletes_of(change.added).num_rows:
        return Operation.OVERWRITE
    if data_of(change.removed).num_rows:
        is_append = not change.added.num_rows and not deletes_of(change.removed).num_rows
        return Operation.APPEND if is_append else Operation.OVERWRITE
    return Operation.DELETE


def _files(keys: Iterable[str]) -> str:
    some = [k.partition("\x00")[0] for k in keys]
    return f"{len(some)} files ({some[0]}, ...)" if len(some) > 1 else f"the file {some[0]}"


def _built_upon(
    repository: Repository,
    branch: str,
    before: TableState,
    after: TableState,
    now: TableState,
    head: Snapshot,
    refuse: Refuse,
) -> tuple[Snapshot, ...]:
    """The snapshots of the branch from the commit's own on, oldest first.

    Raises where that one is not in the branch's history any more: rows that it removed may then be there in other
    files.
    """
    made, found = after.metadata.refs[branch], list[Snapshot]()
    for ancestor in ancestors_since(repository, now, head.snapshot_id, before.position):
        found.append(ancestor)
        if ancestor.snapshot_id == made.snapshot_id:
            return tuple(reversed(found))
    raise refuse(f"{branch} was set to a snapshot without it since", ROW_UPDATES)


def _check_not_rewritten(
    repository: Repository, change: BranchChange, now: TableState, since: Iterable[Snapshot], refuse: Refuse
) -> None:
    """Checks that no file which comes back came back before, and had its rows written to other files then."""
    removed, added = (set(file_keys(entries).to_pylist()) for entries in (change.removed, change.added))
    for earlier, later in pairwise(since):
        try:
            left, came = changed_files(repository, now, earlier, later)
        except MissingFileError as e:
            raise refuse(f"what snapshot {later.snapshot_id} did to its files can't be told: {e}", ROW_UPDATES) from e
        again = removed.intersection(file_keys(left).to_pylist())
        if again and not added.issuperset(file_keys(data_of(came)).to_pylist()):
            raise refuse(f"{_files(sorted(again))} that it removed came back and was rewritten since", ROW_UPDATES)


def _check_there(repository: Repository, change: BranchChange, now: TableState, refuse: Refuse) -> None:
    """Checks that files which come back are on storage, with sequence numbers in the log and specs in the table."""
    specs = set(change.removed["spec_id"].to_pylist())
    if unknown := sorted(specs - now.metadata.specs.keys()):
        raise refuse(f"the partition specs {unknown} of its files are gone", (RemovePartitionSpecs,))
    if change.removed["sequence_number"].null_count:
        raise ValidationError("the files that it removed have no sequence numbers in the log")
    storage = repository.storage_of(now)
    paths = dict.fromkeys(change.removed["file_path"].to_pylist())
    if missing := [p for p in paths if not storage.exists(p)]:
        raise refuse(f"{_files(missing)} that it removed was deleted from storage", (RemoveSnapshots,))


def _as_added(removed: pa.Table) -> pa.Table:
    """Removed entries as new ones: their data sequence numbers and row ids stay, the rest is inherited (M2)."""
    added = with_status(removed, ManifestEntryStatus.ADDED)
    for name in ("snapshot_id", "file_sequence_number"):
        index = ENTRY_SCHEMA.get_field_index(name)
        added = added.set_column(index, ENTRY_SCHEMA.field(name), pa.nulls(added.num_rows, pa.int64()))
    return added


def _removals(
    repository: Repository, state: TableState, head: Snapshot, added: pa.Table, without: Collection[str]
) -> tuple[ManifestRemoval, ...]:
    """The split of each manifest that holds one of the files, or a delete file that references one of the data files.

    Data manifests `without`, by their paths, hold none of them.
    """
    out = []
    keys, data = file_keys(added), path_keys(data_of(added)["file_path"])
    for listed in repository.list_manifests(state, head) if len(keys) else ():
        is_data = listed.manifest.content is ManifestContent.DATA
        if not listed.manifest.has_live_files or (is_data and listed.manifest.manifest_path in without):
            continue
        live = repository.lists.live_entries(state, listed)
        mask = pc.is_in(file_keys(live), keys.combine_chunks())
        if not is_data:
            mask = pc.or_(mask, pc.is_in(path_keys(live["referenced_data_file"]), data.combine_chunks()))
        if pc.any(mask).as_py():
            out.append(ManifestRemoval(listed, live.filter(pc.invert(mask)), live.filter(mask)))
    return tuple(out)
