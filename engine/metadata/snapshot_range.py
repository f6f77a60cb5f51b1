"""Ranges of snapshots on one line of ancestors, as incremental scans take them, by the rules of Java and PyIceberg."""

from __future__ import annotations

from attrs import frozen

from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRefType


@frozen
class SnapshotRange:
    """The snapshots after one, up to and with another, oldest first. It may be empty."""

    snapshots: tuple[Snapshot, ...]

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        *,
        from_exclusive: int | None,
        from_inclusive: int | None,
        to_inclusive: int | None,
        branch: str | None,
    ) -> SnapshotRange:
        """The range between two snapshots.

        Without a start it begins at the oldest ancestor that is still there, without an end it ends at the head of the
        branch, by default `main`. From a snapshot to itself, exclusive, nothing is in it. An exclusive start may have
        been expired, if a snapshot of the range has it as its parent. Raises NoSuchSnapshotError for an unknown end,
        start or branch, ValidationError where the start is no ancestor of the end, the end is none of the head, or both
        starts are given.
        """
        if from_exclusive is not None and from_inclusive is not None:
            raise ValidationError("a scan takes one of from_snapshot_id_exclusive and from_snapshot_id_inclusive")
        start = from_exclusive if from_inclusive is None else from_inclusive
        end = _end(metadata, to_inclusive, branch)
        if end is None:
            if start is not None:
                raise ValidationError("the scan has a start, but the table has no snapshot to end at")
            return cls(())
        if from_inclusive is not None:
            metadata.find_snapshot(from_inclusive)
        snapshots: list[Snapshot] = []
        if from_exclusive == end.snapshot_id:
            return cls(())
        for snapshot in metadata.ancestors(end.snapshot_id):
            snapshots.append(snapshot)
            if start == (snapshot.parent_snapshot_id if from_inclusive is None else snapshot.snapshot_id):
                break
        else:
            if start is not None:
                raise ValidationError(f"snapshot {start} is no ancestor of snapshot {end.snapshot_id}")
        return cls(tuple(reversed(snapshots)))


def _end(metadata: TableMetadata, to_inclusive: int | None, branch: str | None) -> Snapshot | None:
    head = metadata.snapshot_by_ref(branch or MAIN_BRANCH)
    if branch is not None and branch in metadata.refs and metadata.refs[branch].type is not SnapshotRefType.BRANCH:
        raise ValidationError(f"{branch!r} is a tag, expected a branch")
    if to_inclusive is None:
        return head
    if metadata.snapshot_by_id(to_inclusive) is None:
        raise NoSuchSnapshotError(f"there is no snapshot {to_inclusive} to end at")
    if branch is not None and not metadata.is_ancestor(to_inclusive, head.snapshot_id if head else None):
        raise ValidationError(f"snapshot {to_inclusive} is not on the branch {branch!r}")
    return metadata.find_snapshot(to_inclusive)
