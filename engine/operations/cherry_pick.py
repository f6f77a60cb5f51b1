"""Cherry-picks: the changes of one snapshot on main, by a fast-forward where possible, else by a snapshot of its own.

The rules are those of Java's CherryPickOperation: appends and overwrites of whole partitions can be picked, whatever
else only fast-forwards. Spec: Appendix F (L5: source-snapshot-id, published-wap-id).
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.commit.decide import ChangeMetadata, Command, ProduceSnapshot, StaleRemovals
from icecore.engine.commit.ref_updates import check_required, moved_main
from icecore.engine.errors import ValidationError
from icecore.engine.evolution.manage_snapshots import CherryPick
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, partition_keys, with_status
from icecore.engine.metadata.write_audit_publish import PUBLISHED_WAP_ID, check_unpublished
from icecore.engine.operations.action import PlanContext
from icecore.engine.operations.equality_deletes import Place
from icecore.engine.operations.file_effects import FileEffects, live_among, removals_of
from icecore.engine.operations.replace_partitions import REPLACE_PARTITIONS
from icecore.engine.repository.ancestors import ancestors_since
from icecore.engine.spec.content_file import DataFileContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.promotion import unmet_columns
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation, Snapshot
from icecore.engine.spec.updates.table_update import TableUpdate

SOURCE_SNAPSHOT_ID = "source-snapshot-id"
_INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


@frozen
class PickSnapshot:
    """A cherry-pick onto main, as a snapshot of this id unless it is a fast-forward."""

    pick: CherryPick
    snapshot_id: int

    def plan(self, at: PlanContext) -> Command:
        """The command for main as it is now.

        Raises ValidationError where the snapshot can't be picked: it or a file of it is on main already, it was
        published already, replaces partitions that were changed since, is of an operation that only fast-forwards, or
        its rows may have no value of a column that is required now.
        """
        metadata = at.state.metadata
        source, head = self.pick.source(metadata), metadata.current_snapshot()
        is_append = source.operation == Operation.APPEND
        is_replace = source.operation == Operation.OVERWRITE and _replaces_partitions(source)
        # All of the log is searched, as a snapshot's time is only what its writer's clock said.
        ancestors = list(ancestors_since(at.repository, at.state, metadata.current_snapshot_id, 0))
        wap_id = check_unpublished(ancestors, source) if is_append or is_replace else None
        if source.parent_snapshot_id == (head.snapshot_id if head else None):
            return _fast_forward(source)
        if not is_append and not is_replace:
            raise ValidationError(
                f"snapshot {source.snapshot_id} ({source.operation}) can't be picked: it is no append or overwrite of "
                f"partitions, and its parent is not the head of main"
            )
        _check_not_there(ancestors, source)
        _check_required(at.metadata, source)
        added = _entries(at, source, ManifestEntryStatus.ADDED)
        removed = _entries(at, source, ManifestEntryStatus.DELETED)
        if pc.any(pc.not_equal(added["content"], int(DataFileContent.DATA))).as_py():
            raise ValidationError(f"snapshot {source.snapshot_id} can't be picked: it adds delete files")
        if is_replace:
            _check_partitions(at, source, (added, removed), ancestors)
        gone = removed.filter(pc.equal(removed["content"], int(DataFileContent.DATA)))["file_path"].to_pylist()
        effects = FileEffects(by_position=False, gone=gone)
        again = sorted(set(added["file_path"].to_pylist()) - set(gone))
        if present := live_among(again, at.repository, at.state, head):
            # Files may come to main without a pick.
            raise ValidationError(
                f"snapshot {source.snapshot_id} can't be picked: files of it are in main already, as {present[0]}"
            )
        summary = {SOURCE_SNAPSHOT_ID: str(source.snapshot_id)} | ({PUBLISHED_WAP_ID: wap_id} if wap_id else {})
        return ProduceSnapshot(
            Operation.APPEND if is_append else Operation.OVERWRITE,
            self.snapshot_id,
            MAIN_BRANCH,
            added=as_new(added),
            removals=removals_of(at, head, effects),
            is_planned=True,
            base_snapshot_id=head.snapshot_id if head else None,
            written_on=at.metadata,
            summary=summary,
        )


def as_new(entries: pa.Table) -> pa.Table:
    """Entries to be added again, null where the new snapshot assigns values (M2, RL3)."""
    out = with_status(entries, ManifestEntryStatus.ADDED)
    for name in _INHERITED:
        nulls = pa.nulls(out.num_rows, pa.int64())
        out = out.set_column(ENTRY_SCHEMA.get_field_index(name), ENTRY_SCHEMA.field(name), nulls)
    return out


def _fast_forward(source: Snapshot) -> ChangeMetadata:
    def updates_for(metadata: TableMetadata) -> list[TableUpdate]:
        if metadata.current_snapshot_id != source.parent_snapshot_id:
            raise StaleRemovals
        _check_required(metadata, source)
        return moved_main(metadata, source.snapshot_id)

    return ChangeMetadata(updates_for)


def _check_required(metadata: TableMetadata, source: Snapshot) -> None:
    """Raises ValidationError where rows that nobody has read yet may have no value of a column that is required now."""
    if source.operation != Operation.DELETE:
        check_required(metadata, source, unmet_columns)


def _replaces_partitions(snapshot: Snapshot) -> bool:
    return (snapshot.summary or {}).get(REPLACE_PARTITIONS, "false").lower() == "true"


def _check_not_there(ancestors: Iterable[Snapshot], source: Snapshot) -> None:
    for ancestor in ancestors:
        if ancestor.snapshot_id == source.snapshot_id:
            raise ValidationError(f"snapshot {source.snapshot_id} can't be picked: it is an ancestor of main already")
        if (ancestor.summary or {}).get(SOURCE_SNAPSHOT_ID) == str(source.snapshot_id):
            raise ValidationError(
                f"snapshot {source.snapshot_id} can't be picked: it was, as snapshot {ancestor.snapshot_id}"
            )


def _check_partitions(
    at: PlanContext, source: Snapshot, changed: tuple[pa.Table, pa.Table], ancestors: Iterable[Snapshot]
) -> None:
    """Raises ValidationError where a snapshot since the source's parent added files that may concern what it replaces.

    These are data and delete files of a partition of the entries that it added and removed, or of another spec: they
    may have rows of the partition, or delete rows that the source wrote again. It raises for expired snapshots too, as
    they may have added some.
    """
    metadata = at.state.metadata
    parent = source.parent_snapshot_id
    if parent is not None and not metadata.is_ancestor(parent, metadata.current_snapshot_id):
        raise ValidationError(
            f"snapshot {source.snapshot_id} can't be picked: it overwrites partitions, and its parent {parent} is not "
            f"an ancestor of main"
        )
    places, before = [_places(entries, metadata) for entries in changed], metadata.current_snapshot_id
    replaced, spec_ids = set.union(*places), {spec_id for spec_id, _ in places[0]}
    for snapshot in ancestors:
        if snapshot.snapshot_id == parent:
            return
        if metadata.snapshot_by_id(snapshot.snapshot_id) is None:
            break
        before = snapshot.parent_snapshot_id
        since = _places(_entries(at, snapshot, ManifestEntryStatus.ADDED), metadata)
        if replaced and any({spec_id} != spec_ids for spec_id, _ in since):
            raise ValidationError(
                f"snapshot {source.snapshot_id} can't be picked: snapshot {snapshot.snapshot_id} added files of "
                f"another partition spec, which may concern rows that it replaces"
            )
        if not replaced.isdisjoint(since):
            raise ValidationError(
                f"snapshot {source.snapshot_id} can't be picked: snapshot {snapshot.snapshot_id} added files to a "
                f"partition that it replaces"
            )
    if before is not None:
        raise ValidationError(
            f"snapshot {source.snapshot_id} can't be picked: it overwrites partitions, and snapshots of main since "
            f"have expired, as {before}"
        )


def _places(entries: pa.Table, metadata: TableMetadata) -> set[Place]:
    return set(partition_keys(entries, metadata.specs, metadata.all_fields))


def _entries(at: PlanContext, snapshot: Snapshot, status: ManifestEntryStatus) -> pa.Table:
    """The entries that a snapshot itself added or deleted."""
    found = [ENTRY_SCHEMA.empty_table()]
    for listed in at.repository.list_manifests(at.state, snapshot):
        if listed.manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        entries = at.repository.entries.inherited(at.state.stream, listed, at.repository.storage_of(at.state))
        own = pc.and_(pc.equal(entries["status"], int(status)), pc.equal(entries["snapshot_id"], snapshot.snapshot_id))
        found.append(entries.filter(own).select(ENTRY_SCHEMA.names).cast(ENTRY_SCHEMA))
    return pa.concat_tables(found)
