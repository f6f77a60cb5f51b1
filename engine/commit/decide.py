"""The decision of what a command does to a table: pure functions from a state and a command.

A decision is the accepted updates with every assigned value, the requirements they were accepted under, the content
files that go beside the event, and how the manifest lists of new snapshots differ from their parents'. Nothing here
reads a file, a clock or a random number: ids and times come in with the context.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, field, frozen

from icecore.engine.commit.first_row_ids import assign_first_row_ids
from icecore.engine.commit.given_updates import check_given_updates
from icecore.engine.commit.manifest_merge import Clustering
from icecore.engine.commit.new_manifests import EventContent, ManifestRemoval, NewManifests
from icecore.engine.commit.snapshot_summary import summary_of
from icecore.engine.errors import ValidationError
from icecore.engine.events.manifest_changes import ListedManifest, ManifestChanges
from icecore.engine.metadata.assigned_ids import moved_orders, with_own_ids
from icecore.engine.metadata.fold import check_properties, metadata_folder
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.metadata.requirements import requirements_for
from icecore.engine.metadata.write_audit_publish import is_staged
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.spec.content_file import DataFileContent, ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.promotion import misread_columns
from icecore.engine.spec.snapshot import Operation, Snapshot, SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.metadata_update import stored_updates
from icecore.engine.spec.updates.requirement import TableRequirement
from icecore.engine.spec.updates.table_update import (
    AddSnapshot,
    RemoveSnapshots,
    SetSnapshotRef,
    TableUpdate,
    read_table_updates,
)

ListManifests = Callable[[int], tuple[ListedManifest, ...]]
LiveEntries = Callable[[ListedManifest], pa.Table]


@frozen
class ProduceSnapshot:
    """Makes a snapshot on a branch from added entries and removals.

    `is_planned` says that added delete files and removals were planned on the head `base_snapshot_id`. Once the head
    has moved, the command has to be planned again, unless it `outlives_appends` (further data files make no difference
    to it) and nothing but data files was added; so it has to if the files that were written for it, by the metadata
    `written_on`, don't fit the table any more. `clusterings` put live entries into other manifests. `summary` holds
    extra properties. A command that changes nothing and has no properties makes no snapshot. A snapshot that is staged
    for audit moves no branch.
    """

    operation: Operation
    snapshot_id: int
    branch: str
    added: pa.Table | None = field(default=None, repr=False)
    removals: tuple[ManifestRemoval, ...] = ()
    clusterings: tuple[Clustering, ...] = ()
    is_planned: bool = False
    base_snapshot_id: int | None = None
    outlives_appends: bool = False
    written_on: TableMetadata | None = field(default=None, repr=False)
    summary: Mapping[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        string_properties(self.summary, "snapshot properties")

    @property
    def is_empty(self) -> bool:
        """Whether the snapshot would change nothing and say nothing."""
        return not (
            self.removals or self.clusterings or self.summary or (self.added is not None and self.added.num_rows)
        )


@frozen
class ChangeMetadata:
    """Changes metadata without a snapshot: `updates_for` gives the updates for the state it is decided on.

    `replaces` says that the change replaces the table by another one.
    """

    updates_for: Callable[[TableMetadata], list[TableUpdate]]
    replaces: bool = False


Command = ProduceSnapshot | ChangeMetadata


@frozen
class Context:
    """The inputs of a decision that need I/O: the id and time of the event to be, and lookups of manifests.

    `list_manifests` gives the manifests of a snapshot, from the log or from its file; `has_list` says whether the log
    has them. `live_entries` gives a committed manifest's live entries with all that they inherit, for merging only.
    """

    event_id: str
    recorded_at_ms: int
    list_manifests: ListManifests
    has_list: Callable[[int], bool]
    live_entries: LiveEntries


@frozen
class Decision:
    """The content of one table's event to be, and the metadata after it."""

    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    snapshots: Mapping[int, ManifestChanges] = field(factory=dict)
    content: pa.Table | None = field(default=None, repr=False)
    metadata: TableMetadata | None = field(default=None, repr=False)
    moved_orders: Mapping[int, int] = field(factory=dict)
    """The ids by which the client's files may name sort orders, with the ids that these orders got instead."""

    @property
    def given(self) -> tuple[Snapshot, ...]:
        """The snapshots whose manifests a client wrote by itself."""
        added = (u.snapshot for u in self.updates if isinstance(u, AddSnapshot))
        return tuple(s for s in added if s.snapshot_id not in self.snapshots)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not self.updates

    def to_payload(self) -> dict[str, Any]:
        return {
            "updates": [u.to_dict() for u in self.updates],
            "requirements": [r.to_dict() for r in self.requirements],
            "snapshots": {str(i): c.to_dict() for i, c in self.snapshots.items()},
        }


def decide(base: TableMetadata, commands: Iterable[Command], context: Context) -> Decision:
    """The decision of several commands that make one commit, each on the state the one before leaves.

    Raises ValidationError where a command breaks a rule or names what is not there, NoSuchSnapshotError for a branch
    that does not exist.
    """
    deciding = _Deciding(base, context)
    is_replace = False
    for command in commands:
        match command:
            case ChangeMetadata():
                is_replace = is_replace or command.replaces
                deciding.update(command.updates_for(deciding.metadata))
            case ProduceSnapshot():
                deciding.produce(command)
            case _:
                assert_never(command)
    updates = tuple(deciding.updates)
    check_given_updates(base, deciding.metadata, updates)
    check_properties(deciding.metadata.properties)
    return Decision(
        updates,
        tuple(requirements_for(base, updates, is_replace=is_replace)),
        deciding.snapshots,
        deciding.content.table(),
        deciding.metadata,
        deciding.moved_orders,
    )


class _Deciding:
    """A decision in the making: the metadata as it will be, and the parts of the event so far."""

    def __init__(self, base: TableMetadata, context: Context) -> None:
        self.metadata = base
        self.context = context
        self.updates: list[TableUpdate] = []
        self.snapshots: dict[int, ManifestChanges] = {}
        self.moved_orders: dict[int, int] = {}
        self.content = EventContent(context.event_id)
        self._lists: dict[int, tuple[ListedManifest, ...]] = {}

    def update(self, changes: list[TableUpdate]) -> None:
        if not changes:
            return
        updates = accepted_updates(self.metadata, changes)
        if not updates:
            return
        self.moved_orders |= moved_orders(self.metadata, changes)
        builder = MetadataBuilder(self.metadata)
        builder.apply(updates, self.context.recorded_at_ms)
        self.metadata = builder.build()
        self.updates.extend(updates)

    def produce(self, command: ProduceSnapshot) -> None:
        metadata = self.metadata
        if command.written_on is not None and not _still_fit(command.added, command.written_on, metadata):
            raise StaleRemovals
        parent = self._parent(command)
        if command.is_empty:
            return
        parent_list = self._list(parent)
        sequence_number = metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0
        if metadata.format_version > 1:
            _check_deletes_hold(command.added, parent_list, sequence_number)
        changes = self._manifests(command, parent_list, sequence_number)
        first_row_id = added_rows = None
        if metadata.format_version >= 3:
            first_row_id = metadata.next_row_id or 0
            changes, added_rows = assign_first_row_ids(changes, parent_list, first_row_id)
        if parent is not None and not self._is_known(parent):
            changes = evolve(changes, base=parent_list)
        self.snapshots[command.snapshot_id] = changes
        self._lists[command.snapshot_id] = changes.apply(parent_list)
        snapshot = Snapshot(
            command.snapshot_id,
            max(self.context.recorded_at_ms, metadata.last_updated_ms),
            parent_snapshot_id=parent.snapshot_id if parent else None,
            sequence_number=sequence_number,
            manifest_list=f"{self._folder}/snap-{command.snapshot_id}-1-{self.context.event_id}.avro",
            summary=self._summary(command, parent),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows,
        )
        updates: list[TableUpdate] = [AddSnapshot(snapshot, metadata.format_version > 1)]
        before = self.snapshots.keys() - {command.snapshot_id}
        if not is_staged(metadata, command.branch, command.summary, before):
            updates.append(SetSnapshotRef(command.branch, self._moved(command.branch, command.snapshot_id)))
        self.update(updates)

    def _manifests(
        self, command: ProduceSnapshot, parent_list: tuple[ListedManifest, ...], sequence_number: int
    ) -> ManifestChanges:
        """The change of the new snapshot's manifest list against its parent's."""
        new = NewManifests(self.metadata, command.snapshot_id, sequence_number, self.content)
        added = new.added(command.added)
        rewritten = [new.rewritten(r) for r in command.removals]
        clustered = new.clustered(command.clusterings)
        gone = {r.listed.manifest.manifest_path for r in command.removals}
        gone |= {m.manifest.manifest_path for c in command.clusterings for m in c.replaced}
        gone |= {m.manifest.manifest_path for m in parent_list if not m.manifest.has_live_files}
        changes = ManifestChanges((*added, *rewritten, *clustered), frozenset(gone))
        if command.operation is Operation.REPLACE:
            return changes
        return new.merged(changes, parent_list, self.context.live_entries)

    def _is_known(self, parent: Snapshot) -> bool:
        """Whether the log has the manifest list of a snapshot, or will have it with this event."""
        return parent.snapshot_id in self._lists or self.context.has_list(parent.snapshot_id)

    def _summary(self, command: ProduceSnapshot, parent: Snapshot | None) -> dict[str, str]:
        removed = [r.removed for r in command.removals]
        counted = summary_of(
            str(command.operation),
            command.added,
            pa.concat_tables(removed) if removed else None,
            None if parent is None else parent.summary or {},
            self.metadata.specs,
            self.metadata.all_fields,
        )
        return dict(command.summary) | counted

    @property
    def _folder(self) -> str:
        return metadata_folder(self.metadata.location, self.metadata.properties)

    def _parent(self, command: ProduceSnapshot) -> Snapshot | None:
        ref = self.metadata.refs.get(command.branch)
        if ref is not None and ref.type is SnapshotRefType.TAG:
            raise ValidationError(f"{command.branch!r} is a tag; commits go to branches")
        parent = self.metadata.head_for_commit(command.branch)
        if command.is_planned and (parent.snapshot_id if parent else None) != command.base_snapshot_id:
            base = self.metadata.snapshots_by_id.get(command.base_snapshot_id or 0)
            if not command.outlives_appends or base is None or not self._is_base_and_appends(base, parent):
                raise StaleRemovals
        return parent

    def _is_base_and_appends(self, base: Snapshot, head: Snapshot | None) -> bool:
        """Whether the head has all manifests of the base with live files, and besides these none with delete files.

        Then the files of the base, their deletes and the ids of their rows are as they were, whichever commits led to
        that.
        """
        before = {m.listing for m in self._list(base) if m.manifest.has_live_files}
        now = {m.listing: m.manifest.content for m in self._list(head) if m.manifest.has_live_files}
        return before <= now.keys() and all(now[place] is ManifestContent.DATA for place in now.keys() - before)

    def _list(self, parent: Snapshot | None) -> tuple[ListedManifest, ...]:
        if parent is None:
            return ()
        if parent.snapshot_id in self._lists:
            return self._lists[parent.snapshot_id]
        return self.context.list_manifests(parent.snapshot_id)

    def _moved(self, branch: str, snapshot_id: int) -> SnapshotRef:
        ref = self.metadata.refs.get(branch)
        return SnapshotRef(snapshot_id, SnapshotRefType.BRANCH) if ref is None else evolve(ref, snapshot_id=snapshot_id)


def accepted_updates(metadata: TableMetadata, changes: Iterable[TableUpdate]) -> list[TableUpdate]:
    """The updates as an event stores them, with ids of the table's own.

    Raises ValidationError, CommitFailedError.
    """
    return with_own_ids(metadata, stored_updates(changes, read_table_updates))


class StaleRemovals(Exception):
    """A signal to plan again: the branch or the name moved since, or this takes too long inside of the write lock.

    Never leaves the engine.
    """


def leaving_out(snapshot_ids: Collection[int]) -> ChangeMetadata:
    """Removes those of the snapshots that no branch or tag refers to any more."""

    def updates_for(metadata: TableMetadata) -> list[TableUpdate]:
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        gone = sorted((metadata.snapshots_by_id.keys() & set(snapshot_ids)) - heads)
        return [RemoveSnapshots(tuple(gone))] if gone else []

    return ChangeMetadata(updates_for)


def _still_fit(added: pa.Table | None, written_on: TableMetadata, metadata: TableMetadata) -> bool:
    """Whether files can be added as they are: another format version has other deletes by position (D1)."""
    version = metadata.format_version
    contents = () if added is None else pc.unique(added["content"]).to_pylist()
    if written_on.format_version != version and DataFileContent.POSITION_DELETES in contents:
        return False
    return not any(misread_columns(written_on.schema(), metadata.schema(), version))


def _check_deletes_hold(added: pa.Table | None, listed: Sequence[ListedManifest], sequence_number: int) -> None:
    """Raises ValidationError where files are too new for delete files that a snapshot adds (SP2, SP3, SP4)."""
    contents = () if added is None else pc.unique(added["content"]).to_pylist()
    if not any(contents):
        return
    newest = max((m.manifest.sequence_number for m in listed), default=0)
    upto = sequence_number - 1 if DataFileContent.EQUALITY_DELETES in contents else sequence_number
    if newest > upto:
        raise ValidationError(
            f"the table's files have sequence numbers up to {newest}, and its last one is below: delete files, which "
            f"hold up to {upto}, would not delete their rows; copy-on-write would"
        )
