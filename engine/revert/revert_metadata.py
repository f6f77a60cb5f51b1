"""The way back of a change of metadata: each part is set back where it is still as the change left it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from icecore.engine.commit.decide import set_ref
from icecore.engine.errors import ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, PartitionStatisticsFile, SnapshotRef, StatisticsFile

Updates = list[dict[str, Any]]
Refuse = Callable[[str, frozenset[str]], Exception]
"""Makes the error of a part that was changed again: what it is, and the actions of updates that change it."""
K = TypeVar("K")
V = TypeVar("V")

_LASTING = {
    "upgrade-format-version": "an upgrade of the format version",
    "remove-snapshots": "the expiry of snapshots",
    "remove-schemas": "the removal of schemas",
    "remove-partition-specs": "the removal of partition specs",
    "add-encryption-key": "a change of encryption keys",
    "remove-encryption-key": "a change of encryption keys",
    "assign-uuid": "a change of the table's UUID",
}


def check_undoable(updates: list[dict[str, Any]], position: int) -> None:
    """Raises ValidationError for updates that have no way back."""
    for update in updates:
        if (what := _LASTING.get(update["action"])) is not None:
            raise ValidationError(f"position {position} can't be reverted: {what} has no way back")


def undone_properties(
    before: Mapping[str, str], after: Mapping[str, str], now: Mapping[str, str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """(updates, removals, conflicts) that take the properties back: conflicts are keys that were changed again."""
    updates, removals, conflicts = {}, [], []
    for key in sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)):
        if now.get(key) == before.get(key):
            continue
        if now.get(key) != after.get(key):
            conflicts.append(key)
        elif key in before:
            updates[key] = before[key]
        else:
            removals.append(key)
    return updates, removals, conflicts


def undone_metadata(
    before: TableMetadata, after: TableMetadata, now: TableMetadata, branches: frozenset[str], refuse: Refuse
) -> Updates:
    """The updates that take everything back but rows. `branches` are those whose rows are taken back by a snapshot."""
    out: Updates = []
    for before_id, after_id, now_id, action, key, what in (
        (
            before.current_schema_id,
            after.current_schema_id,
            now.current_schema_id,
            "set-current-schema",
            "schema-id",
            "current schema",
        ),
        (before.default_spec_id, after.default_spec_id, now.default_spec_id, "set-default-spec", "spec-id", "spec"),
        (
            before.default_sort_order_id,
            after.default_sort_order_id,
            now.default_sort_order_id,
            "set-default-sort-order",
            "sort-order-id",
            "sort order",
        ),
        (before.location, after.location, now.location, "set-location", "location", "location"),
    ):
        if before_id != after_id and now_id != before_id:
            if now_id != after_id:
                raise refuse(f"the {what} was changed again", frozenset({action}))
            out.append({"action": action, key: before_id})
    updates, removals, conflicts = undone_properties(before.properties, after.properties, now.properties)
    if conflicts:
        actions = frozenset({"set-properties", "remove-properties"})
        raise refuse(f"the properties {conflicts} were changed again", actions)
    if updates:
        out.append({"action": "set-properties", "updates": updates})
    if removals:
        out.append({"action": "remove-properties", "removals": removals})
    return [*out, *_refs(before, after, now, branches, refuse), *_statistics(before, after, now, refuse)]


def _refs(
    before: TableMetadata, after: TableMetadata, now: TableMetadata, branches: frozenset[str], refuse: Refuse
) -> Updates:
    out: Updates = []
    for name, old in _back(before.refs, after.refs, now.refs, branches, "ref", _REF_ACTIONS, refuse).items():
        if old is None:
            if name == MAIN_BRANCH:
                raise ValidationError("the branch main can't be taken away again; roll back to a snapshot instead")
            out.append({"action": "remove-snapshot-ref", "ref-name": name})
        elif now.snapshot_by_id(old.snapshot_id) is None:
            raise refuse(f"the snapshot {old.snapshot_id} of ref {name!r} is gone", frozenset({"remove-snapshots"}))
        else:
            out.append(set_ref(name, SnapshotRef.from_dict(old.to_dict(), name)))
    return out


_REF_ACTIONS = frozenset({"set-snapshot-ref", "remove-snapshot-ref"})


def _statistics(before: TableMetadata, after: TableMetadata, now: TableMetadata, refuse: Refuse) -> Updates:
    out: Updates = []
    kinds: tuple[tuple[str, Callable[[TableMetadata], Iterable[StatisticsFile | PartitionStatisticsFile]]], ...] = (
        ("statistics", lambda m: m.statistics),
        ("partition-statistics", lambda m: m.partition_statistics),
    )
    for kind, files_of in kinds:
        actions = frozenset({f"set-{kind}", f"remove-{kind}", "remove-snapshots"})
        old, new, found = ({f.snapshot_id: f for f in files_of(m)} for m in (before, after, now))
        for snapshot_id, file in _back(old, new, found, frozenset(), kind, actions, refuse).items():
            if file is None:
                out.append({"action": f"remove-{kind}", "snapshot-id": snapshot_id})
            elif now.snapshot_by_id(snapshot_id) is not None:
                named = {"snapshot-id": snapshot_id} if kind == "statistics" else {}
                out.append({"action": f"set-{kind}", **named, kind: file.to_dict()})
    return out


def _back(
    before: Mapping[K, V],
    after: Mapping[K, V],
    now: Mapping[K, V],
    left_alone: frozenset[K],
    what: str,
    actions: frozenset[str],
    refuse: Refuse,
) -> dict[K, V | None]:
    """The entries that have to become again what they were, None where they were not there."""
    out: dict[K, V | None] = {}
    for key in dict.fromkeys([*before, *after]):
        old, new, found = before.get(key), after.get(key), now.get(key)
        if key in left_alone or old == new or found == old:
            continue
        if found != new:
            raise refuse(f"the {what} {key!r} was changed again", actions)
        out[key] = old
    return out
