"""The retention rules that decide which snapshots and refs expire. Spec: Snapshot Retention Policy (R1, R2)."""

from __future__ import annotations

from attrs import frozen

from icecore.engine.errors import ValidationError
from icecore.engine.properties.table_properties import (
    GC_ENABLED,
    MAX_REF_AGE_MS,
    MAX_SNAPSHOT_AGE_MS,
    MIN_SNAPSHOTS_TO_KEEP,
)
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.table_update import RemoveSnapshotRef, RemoveSnapshots, TableUpdate


@frozen
class Expiry:
    """A request to expire snapshots; times are milliseconds since the epoch.

    Where only `snapshot_ids` are given, just these go. Else snapshots and refs go by age: `older_than_ms` and
    `retain_last`, where they are given, replace the table's properties; a branch's own settings come before both.
    """

    snapshot_ids: frozenset[int] = frozenset()
    older_than_ms: int | None = None
    retain_last: int | None = None

    @property
    def by_age(self) -> bool:
        """Whether snapshots and refs expire by age too."""
        return not self.snapshot_ids or self.older_than_ms is not None or self.retain_last is not None


def expiring_updates(metadata: TableMetadata, expiry: Expiry, now_ms: int) -> list[TableUpdate]:
    """The updates that remove expired snapshots and refs; none where none has expired.

    Raises NoSuchSnapshotError for an unknown id, ValidationError for one that a ref is at, and where `gc.enabled` is
    false.
    """
    check_gc(metadata)
    for snapshot_id in sorted(expiry.snapshot_ids):
        metadata.find_snapshot(snapshot_id)
    refs = _retained_refs(metadata, now_ms) if expiry.by_age else dict(metadata.refs)
    for name, ref in refs.items():
        if ref.snapshot_id in expiry.snapshot_ids:
            raise ValidationError(f"snapshot {ref.snapshot_id} can't expire: {ref.type} {name!r} is at it")
    gone = set(expiry.snapshot_ids)
    if expiry.by_age:
        retained = _retained(metadata, refs, expiry, now_ms)
        gone |= {s.snapshot_id for s in metadata.snapshots} - retained
    updates: list[TableUpdate] = [RemoveSnapshotRef(name) for name in sorted(metadata.refs.keys() - refs.keys())]
    if gone:
        updates.append(RemoveSnapshots(tuple(sorted(gone))))
    return updates


def check_gc(metadata: TableMetadata) -> None:
    """Raises ValidationError where the table's files may belong to other tables too."""
    if not GC_ENABLED.of(metadata.properties):
        raise ValidationError(f"{GC_ENABLED.name} is not true: other tables may need the files of {metadata.location}")


def _retained_refs(metadata: TableMetadata, now_ms: int) -> dict[str, SnapshotRef]:
    default = MAX_REF_AGE_MS.find(metadata.properties)
    out = {}
    for name, ref in metadata.refs.items():
        limit = default if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        age = now_ms - metadata.find_snapshot(ref.snapshot_id).timestamp_ms
        if name == MAIN_BRANCH or limit is None or age <= limit:
            out[name] = ref
    return out


def _retained(metadata: TableMetadata, refs: dict[str, SnapshotRef], expiry: Expiry, now_ms: int) -> set[int]:
    """The heads of refs, the snapshots that branches keep, and young ones that no ref leads to."""
    older_than = expiry.older_than_ms
    if older_than is None:
        older_than = now_ms - MAX_SNAPSHOT_AGE_MS.of(metadata.properties)
    least = expiry.retain_last
    if least is None:
        least = MIN_SNAPSHOTS_TO_KEEP.of(metadata.properties)
    retained, referenced = set[int](), set[int]()
    for ref in refs.values():
        retained.add(ref.snapshot_id)
        referenced.add(ref.snapshot_id)
        if ref.type is SnapshotRefType.BRANCH:
            ancestors = list(metadata.ancestors(ref.snapshot_id))
            referenced |= {s.snapshot_id for s in ancestors}
            limit = older_than if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
            count = least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
            for number, snapshot in enumerate(ancestors):
                if number >= count and snapshot.timestamp_ms < limit:
                    break
                retained.add(snapshot.snapshot_id)
    young = {s.snapshot_id for s in metadata.snapshots if s.timestamp_ms >= older_than}
    return retained | (young - referenced)
