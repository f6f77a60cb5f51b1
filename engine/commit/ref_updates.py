"""The updates that move, rename and keep branches and tags, on the metadata they are decided on.

Spec: Snapshot References (R1). The rules are those of Java's UpdateSnapshotReferencesOperation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import evolve

from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.promotion import lacking_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.table_update import RemoveSnapshotRef, SetSnapshotRef, TableUpdate

Updates = list[TableUpdate]


def find_ref(metadata: TableMetadata, name: str, kind: SnapshotRefType | None = None) -> SnapshotRef:
    """The ref of that name. Raises NoSuchSnapshotError where there is none of that kind."""
    ref = metadata.refs.get(name)
    if ref is None or kind not in (None, ref.type):
        raise NoSuchSnapshotError(f"there is no {kind or 'branch or tag'} {name!r}")
    return ref


def check_required(
    metadata: TableMetadata, snapshot: Snapshot, missing: Callable[[Schema, Schema], Iterator[str]] = lacking_columns
) -> None:
    """Raises ValidationError where rows of a snapshot have no value of a column that the current schema requires.

    By default where they all lack it, so that no reader of main could read them.
    """
    written = next((s for s in metadata.schemas if s.schema_id == snapshot.schema_id), None)
    if written is None or (snapshot.summary or {}).get("total-records") == "0":
        return
    if (name := next(missing(written, metadata.schema()), None)) is not None:
        raise ValidationError(
            f"snapshot {snapshot.snapshot_id} can't be on main: column {name!r} is required, and was not when its rows "
            f"were written; make it optional first"
        )


def replaced(metadata: TableMetadata, name: str, kind: SnapshotRefType, snapshot_id: int) -> Updates:
    """Points a ref at another snapshot; its retention stays."""
    ref = find_ref(metadata, name, kind)
    metadata.find_snapshot(snapshot_id)
    return _moved(metadata, name, ref, snapshot_id)


def forwarded(metadata: TableMetadata, branch: str, to: str, *, only_forward: bool) -> Updates:
    """Points a branch at the snapshot of another ref, and makes it where there is none.

    Raises ValidationError where `only_forward` is asked for and the branch's head is not an ancestor of that snapshot.
    """
    target = find_ref(metadata, to).snapshot_id
    ref = metadata.refs.get(branch)
    if ref is None:
        return [SetSnapshotRef(branch, SnapshotRef(target, SnapshotRefType.BRANCH))]
    find_ref(metadata, branch, SnapshotRefType.BRANCH)
    if only_forward and not metadata.is_ancestor(ref.snapshot_id, target):
        raise ValidationError(f"{branch!r} can't be fast-forwarded: its head is not an ancestor of {to!r}")
    return _moved(metadata, branch, ref, target)


def moved_main(metadata: TableMetadata, snapshot_id: int) -> Updates:
    """Points main at a snapshot; its retention stays. Raises NoSuchSnapshotError, ValidationError."""
    metadata.find_snapshot(snapshot_id)
    main = metadata.refs.get(MAIN_BRANCH) or SnapshotRef(snapshot_id, SnapshotRefType.BRANCH)
    return _moved(metadata, MAIN_BRANCH, main, snapshot_id)


def made_from_main(metadata: TableMetadata, branch: str) -> Updates:
    """Makes a branch at the head of main; nothing where it is there, or main is empty and the first commit makes it."""
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None or branch in metadata.refs:
        return []
    return [SetSnapshotRef(branch, SnapshotRef(main.snapshot_id, SnapshotRefType.BRANCH))]


def renamed(metadata: TableMetadata, name: str, new_name: str) -> Updates:
    """Gives a branch another name. Raises ValidationError for main, or where the name is taken."""
    if name == MAIN_BRANCH:
        raise ValidationError("the branch main can't be renamed")
    ref = find_ref(metadata, name, SnapshotRefType.BRANCH)
    check_new_name(metadata, new_name)
    return [SetSnapshotRef(new_name, ref), RemoveSnapshotRef(name)]


def check_new_name(metadata: TableMetadata, name: str) -> None:
    """Raises ValidationError where no new branch or tag can have the name."""
    if not name:
        raise ValidationError("a branch or tag needs a name")
    if name in metadata.refs:
        raise ValidationError(f"there is a {metadata.refs[name].type} {name!r} already")


def retained(metadata: TableMetadata, name: str, **settings: int) -> Updates:
    """Sets retention: `max_ref_age_ms`, and for branches `min_snapshots_to_keep` and `max_snapshot_age_ms`."""
    ref = find_ref(metadata, name, None if set(settings) == {"max_ref_age_ms"} else SnapshotRefType.BRANCH)
    return _changed(name, ref, evolve(ref, **settings))  # type: ignore[arg-type]  # the names are those of numbers


def _moved(metadata: TableMetadata, name: str, ref: SnapshotRef, snapshot_id: int) -> Updates:
    if name == MAIN_BRANCH and metadata.current_snapshot_id != snapshot_id:
        check_required(metadata, metadata.find_snapshot(snapshot_id))
    return _changed(name, metadata.refs.get(name), evolve(ref, snapshot_id=snapshot_id))


def _changed(name: str, before: SnapshotRef | None, after: SnapshotRef) -> Updates:
    return [] if before == after else [SetSnapshotRef(name, after)]
