"""Branches, tags and rollback. Spec: Snapshot References (R1)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.commit.ref_updates import check_new_name, forwarded, moved_main, renamed, replaced, retained
from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.evolution.recorded_update import RecordedUpdate
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms
from icecore.engine.metadata.write_audit_publish import staged_snapshot
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.table_update import RemoveSnapshotRef, SetSnapshotRef, TableUpdate

Updates = list[TableUpdate]


@frozen
class CherryPick:
    """A snapshot to be cherry-picked, by its id or by the `wap.id` it was staged under."""

    snapshot_id: int | None = None
    wap_id: str | None = None

    def source(self, metadata: TableMetadata) -> Snapshot:
        """The snapshot. Raises NoSuchSnapshotError, and ValidationError for a `wap.id` that several snapshots have."""
        if self.snapshot_id is not None:
            return metadata.find_snapshot(self.snapshot_id)
        return staged_snapshot(metadata, self.wap_id or "")


RefChange = ChangeMetadata | CherryPick


class ManageSnapshots(RecordedUpdate[RefChange]):
    """The update of branches and tags that people build; `commit()`, or the end of a `with` block, commits it."""

    def create_tag(self, snapshot_id: int, tag_name: str, max_ref_age_ms: int | None = None) -> ManageSnapshots:
        """Creates a tag. Raises ValidationError at commit where the name is taken, NoSuchSnapshotError."""
        ref = SnapshotRef(snapshot_id, SnapshotRefType.TAG, max_ref_age_ms=max_ref_age_ms)
        return self._add(lambda m: _new_ref(m, tag_name, ref))

    def create_branch(
        self,
        snapshot_id: int,
        branch_name: str,
        max_ref_age_ms: int | None = None,
        max_snapshot_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
    ) -> ManageSnapshots:
        """Creates a branch. Raises ValidationError at commit where the name is taken, NoSuchSnapshotError."""
        ref = SnapshotRef(
            snapshot_id, SnapshotRefType.BRANCH, min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms
        )
        return self._add(lambda m: _new_ref(m, branch_name, ref))

    def remove_tag(self, tag_name: str) -> ManageSnapshots:
        """Removes a tag. Raises NoSuchSnapshotError at commit where there is none."""
        return self._add(lambda m: _remove_ref(m, tag_name, SnapshotRefType.TAG))

    def remove_branch(self, branch_name: str) -> ManageSnapshots:
        """Removes a branch. Raises NoSuchSnapshotError at commit where there is none, ValidationError for main."""
        return self._add(lambda m: _remove_ref(m, branch_name, SnapshotRefType.BRANCH))

    def set_current_snapshot(self, snapshot_id: int | None = None, ref_name: str | None = None) -> ManageSnapshots:
        """Points main at any snapshot, by id or ref. Raises ValidationError, and NoSuchSnapshotError at commit."""
        if (snapshot_id is None) == (ref_name is None):
            raise ValidationError("set_current_snapshot takes a snapshot_id or a ref_name")

        def updates_for(metadata: TableMetadata) -> Updates:
            if ref_name is not None:
                snapshot = metadata.snapshot_by_ref(ref_name)
                if snapshot is None:
                    raise NoSuchSnapshotError(f"the branch {ref_name!r} has no snapshot yet")
                return moved_main(metadata, snapshot.snapshot_id)
            assert snapshot_id is not None, "one of both was given"
            return moved_main(metadata, snapshot_id)

        return self._add(updates_for)

    def rollback_to_snapshot(self, snapshot_id: int) -> ManageSnapshots:
        """Points main at one of its ancestors. Raises ValidationError at commit where it is none."""

        def updates_for(metadata: TableMetadata) -> Updates:
            metadata.find_snapshot(snapshot_id)
            if not metadata.is_ancestor(snapshot_id, metadata.current_snapshot_id):
                raise ValidationError(f"snapshot {snapshot_id} is not an ancestor of the current snapshot")
            return moved_main(metadata, snapshot_id)

        return self._add(updates_for)

    def rollback_to_timestamp(self, timestamp_ms: TimestampLike) -> ManageSnapshots:
        """Points main at its newest ancestor before a time (see `timestamps`).

        Raises ValidationError, and NoSuchSnapshotError at commit.
        """
        before = to_epoch_ms(timestamp_ms, "timestamp")

        def updates_for(metadata: TableMetadata) -> Updates:
            for snapshot in metadata.ancestors(metadata.current_snapshot_id):
                if snapshot.timestamp_ms < before:
                    return moved_main(metadata, snapshot.snapshot_id)
            raise NoSuchSnapshotError(f"no ancestor of the current snapshot is older than {before} ms")

        return self._add(updates_for)

    def cherry_pick(self, snapshot_id: int) -> ManageSnapshots:
        """Applies the changes of a snapshot to main: a fast-forward where possible, else a snapshot of its own.

        Raises at commit, as `publish` does: ValidationError where that can't be, NoSuchSnapshotError.
        """
        return self._record(CherryPick(snapshot_id))

    def publish(self, wap_id: str) -> ManageSnapshots:
        """Applies the changes that were staged under a `wap.id` to main, once only."""
        return self._record(CherryPick(wap_id=wap_id))

    def fast_forward(self, branch_name: str, to: str) -> ManageSnapshots:
        """Points a branch at the snapshot of another ref that has the branch's head as an ancestor."""
        return self._add(lambda m: forwarded(m, branch_name, to, only_forward=True))

    def replace_branch(
        self, branch_name: str, snapshot_id: int | None = None, ref_name: str | None = None
    ) -> ManageSnapshots:
        """Points a branch at any snapshot, by id or ref. Raises ValidationError."""
        if (snapshot_id is None) == (ref_name is None):
            raise ValidationError("replace_branch takes a snapshot_id or a ref_name")
        if ref_name is not None:
            return self._add(lambda m: forwarded(m, branch_name, ref_name, only_forward=False))
        assert snapshot_id is not None, "one of both was given"
        return self._add(lambda m: replaced(m, branch_name, SnapshotRefType.BRANCH, snapshot_id))

    def replace_tag(self, tag_name: str, snapshot_id: int) -> ManageSnapshots:
        """Points a tag at another snapshot."""
        return self._add(lambda m: replaced(m, tag_name, SnapshotRefType.TAG, snapshot_id))

    def rename_branch(self, branch_name: str, new_name: str) -> ManageSnapshots:
        """Renames a branch. Raises ValidationError at commit for main, or where the new name is taken."""
        return self._add(lambda m: renamed(m, branch_name, new_name))

    def set_min_snapshots_to_keep(self, branch_name: str, min_snapshots_to_keep: int) -> ManageSnapshots:
        """Sets how many snapshots a branch keeps at least. Raises NoSuchSnapshotError at commit."""
        return self._add(lambda m: retained(m, branch_name, min_snapshots_to_keep=min_snapshots_to_keep))

    def set_max_snapshot_age_ms(self, branch_name: str, max_snapshot_age_ms: int) -> ManageSnapshots:
        """Sets the age up to which a branch keeps snapshots. Raises NoSuchSnapshotError at commit."""
        return self._add(lambda m: retained(m, branch_name, max_snapshot_age_ms=max_snapshot_age_ms))

    def set_max_ref_age_ms(self, ref_name: str, max_ref_age_ms: int) -> ManageSnapshots:
        """Sets the age up to which a branch or tag is kept. Raises NoSuchSnapshotError at commit."""
        return self._add(lambda m: retained(m, ref_name, max_ref_age_ms=max_ref_age_ms))

    def _add(self, updates_for: Callable[[TableMetadata], Updates]) -> ManageSnapshots:
        return self._record(ChangeMetadata(updates_for))


def _new_ref(metadata: TableMetadata, name: str, ref: SnapshotRef) -> Updates:
    check_new_name(metadata, name)
    metadata.find_snapshot(ref.snapshot_id)
    return [SetSnapshotRef(name, ref)]


def _remove_ref(metadata: TableMetadata, name: str, kind: SnapshotRefType) -> Updates:
    ref = metadata.refs.get(name)
    if ref is None or ref.type is not kind:
        raise NoSuchSnapshotError(f"there is no {kind} {name!r}")
    if name == MAIN_BRANCH:
        raise ValidationError("the branch main can't be removed")
    return [RemoveSnapshotRef(name)]
