"""Decides what a command does to a table: pure functions from a state and a command to a decision.

A decision is the accepted updates with every assigned value, the requirements they were accepted under, the content
files that go beside the event, and how the manifest lists of new snapshots differ from their parents'. Nothing here
reads a file, a clock or a random number: ids and times come in with the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, field, frozen

from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.manifest_changes import OWN_EVENT, ListedManifest, ManifestChanges
from icecore.engine.manifest_merge import MAX_DEPTH, Clustering, bins_to_merge, entries_per_manifest
from icecore.engine.manifest_summary import summarize
from icecore.engine.metadata_builder import MetadataBuilder, Update
from icecore.engine.properties import string_properties
from icecore.engine.requirements import Requirement, requirements_for
from icecore.engine.snapshot_summary import summary_of
from icecore.engine.spec.content_file import DataFileContent, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Operation, Snapshot, SnapshotRef, SnapshotRefType
from icecore.engine.state import check_properties, metadata_folder
from icecore.engine.write_audit_publish import is_staged

ListManifests = Callable[[int], tuple[ListedManifest, ...]]
LiveEntries = Callable[[ListedManifest], pa.Table]


@frozen
class ManifestRemoval:
    """What a command takes out of one manifest of the parent's list.

    `survivors` and `removed` are canonical entries with everything inherited: the live files that stay, and those
    that go.
    """

    listed: ListedManifest
    survivors: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)


@frozen
class ProduceSnapshot:
    """Makes a snapshot on a branch from added entries and removals.

    `is_planned` says that added delete files and removals were planned on the head `base_snapshot_id`; where the head
    has moved since, the command has to be planned again. `clusterings` put live entries into other manifests.
    `summary` holds extra properties. A command that changes nothing and has no properties makes no snapshot. One that
    is staged for audit moves no branch.
    """

    operation: Operation
    snapshot_id: int
    branch: str
    added: pa.Table | None = field(default=None, repr=False)
    removals: tuple[ManifestRemoval, ...] = ()
    clusterings: tuple[Clustering, ...] = ()
    is_planned: bool = False
    base_snapshot_id: int | None = None
    summary: Mapping[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        string_properties(self.summary, "snapshot properties")

    @property
    def is_empty(self) -> bool:
        return not (
            self.removals or self.clusterings or self.summary or (self.added is not None and self.added.num_rows)
        )


@frozen
class ChangeMetadata:
    """Changes metadata without a snapshot: `updates_for` gives the updates on the state that it is decided on.

    `replaces` says that it puts another table in the place of what is there.
    """

    updates_for: Callable[[TableMetadata], list[dict[str, Any]]]
    replaces: bool = False


Command = ProduceSnapshot | ChangeMetadata


@frozen
class Context:
    """What the shell hands in: the id and time of the event to be, and how to look manifests up.

    `list_manifests` gives the manifests of a snapshot, from the log or from its file; `has_list` says whether the log
    has them. `live_entries` gives those of a committed manifest with all that they inherit; asked for merging only.
    """

    event_id: str
    recorded_at_ms: int
    list_manifests: ListManifests
    has_list: Callable[[int], bool]
    live_entries: LiveEntries


@frozen
class Decision:
    """What an event of one table will hold."""

    updates: tuple[dict[str, Any], ...] = ()
    requirements: tuple[Requirement, ...] = ()
    snapshots: Mapping[int, ManifestChanges] = field(factory=dict)
    content: pa.Table | None = field(default=None, repr=False)

    @property
    def is_empty(self) -> bool:
        return not self.updates

    def to_payload(self) -> dict[str, Any]:
        return {
            "updates": list(self.updates),
            "requirements": list(self.requirements),
            "snapshots": {str(i): c.to_dict() for i, c in self.snapshots.items()},
        }


def decide(base: TableMetadata, commands: Iterable[Command], context: Context) -> Decision:
    """The decision of several commands that make one commit, each on the state the one before leaves.

    Raises ValidationError where a command breaks a rule, NoSuchSnapshotError for a branch that is not there.
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
    updates = tuple(deciding.updates)
    check_properties(deciding.metadata.properties)
    return Decision(
        updates,
        tuple(requirements_for(base, updates, is_replace=is_replace)),
        deciding.snapshots,
        pa.concat_tables(deciding.content) if deciding.content else None,
    )


class _Deciding:
    """The state of a decision in the making: metadata as it will be, and what has been gathered for the event."""

    def __init__(self, base: TableMetadata, context: Context) -> None:
        self.metadata = base
        self.context = context
        self.updates: list[dict[str, Any]] = []
        self.snapshots: dict[int, ManifestChanges] = {}
        self.content: list[pa.Table] = []
        self._lists: dict[int, tuple[ListedManifest, ...]] = {}
        self._rows = 0
        self._manifests = 0

    def update(self, updates: list[dict[str, Any]]) -> None:
        if not updates:
            return
        builder = MetadataBuilder(self.metadata)
        builder.apply(updates, self.context.recorded_at_ms)
        self.metadata = builder.build()
        self.updates.extend(updates)

    def produce(self, command: ProduceSnapshot) -> None:
        metadata = self.metadata
        parent = self._parent(command)
        if command.is_empty:
            return
        parent_list = self._list(parent)
        sequence_number = metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0
        added = self._added(command, sequence_number)
        rewritten = tuple(self._rewritten(r, command.snapshot_id, sequence_number) for r in command.removals)
        clustered = self._clustered(command, sequence_number)
        gone = {r.listed.manifest.manifest_path for r in command.removals}
        gone |= {m.manifest.manifest_path for c in command.clusterings for m in c.replaced}
        gone |= {m.manifest.manifest_path for m in parent_list if not m.manifest.has_live_files}
        changes = ManifestChanges((*added, *rewritten, *clustered), frozenset(gone))
        if command.operation is not Operation.REPLACE:
            changes = self._merged(changes, parent_list, command.snapshot_id, sequence_number)
        first_row_id = added_rows = None
        if metadata.format_version >= 3:
            first_row_id = metadata.next_row_id or 0
            changes, added_rows = assign_first_row_ids(changes, parent_list, first_row_id)
        if (
            parent is not None
            and parent.snapshot_id not in self._lists
            and not self.context.has_list(parent.snapshot_id)
        ):
            changes = evolve(changes, base=parent_list)
        self.snapshots[command.snapshot_id] = changes
        self._lists[command.snapshot_id] = changes.apply(parent_list)
        removed = [r.removed for r in command.removals]
        snapshot = Snapshot(
            command.snapshot_id,
            max(self.context.recorded_at_ms, metadata.last_updated_ms),
            parent_snapshot_id=parent.snapshot_id if parent else None,
            sequence_number=sequence_number,
            manifest_list=f"{self._folder}/snap-{command.snapshot_id}-1-{self.context.event_id}.avro",
            summary=dict(command.summary)
            | summary_of(
                str(command.operation),
                command.added,
                pa.concat_tables(removed) if removed else None,
                None if parent is None else parent.summary or {},
            ),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows,
        )
        updates = [{"action": "add-snapshot", "snapshot": snapshot.to_dict(metadata.format_version)}]
        if not is_staged(metadata, command.branch, command.summary):
            updates.append(set_ref(command.branch, self._moved(command.branch, command.snapshot_id)))
        self.update(updates)

    @property
    def _folder(self) -> str:
        return metadata_folder(self.metadata.location, self.metadata.properties)

    def _parent(self, command: ProduceSnapshot) -> Snapshot | None:
        ref = self.metadata.refs.get(command.branch)
        if ref is not None and ref.type is SnapshotRefType.TAG:
            raise ValidationError(f"{command.branch!r} is a tag; commits go to branches")
        parent = self.metadata.snapshot_by_ref(command.branch)
        if command.is_planned and (parent.snapshot_id if parent else None) != command.base_snapshot_id:
            raise StaleRemovals
        return parent

    def _list(self, parent: Snapshot | None) -> tuple[ListedManifest, ...]:
        if parent is None:
            return ()
        if parent.snapshot_id in self._lists:
            return self._lists[parent.snapshot_id]
        return self.context.list_manifests(parent.snapshot_id)

    def _moved(self, branch: str, snapshot_id: int) -> SnapshotRef:
        ref = self.metadata.refs.get(branch)
        return SnapshotRef(snapshot_id, SnapshotRefType.BRANCH) if ref is None else evolve(ref, snapshot_id=snapshot_id)

    def _added(self, command: ProduceSnapshot, sequence_number: int) -> tuple[ListedManifest, ...]:
        """New manifests of the added entries: one spec and one kind of content each (M1), of bounded size."""
        if command.added is None or command.added.num_rows == 0:
            return ()
        added = command.added.select(ENTRY_SCHEMA.names)
        limit = entries_per_manifest(self.metadata.properties)
        out = []
        keys = sorted(
            {(s, c != 0) for s, c in zip(*(added[n].to_pylist() for n in ("spec_id", "content")), strict=True)}
        )
        for spec_id, is_delete in keys:
            kind = pc.not_equal(added["content"], int(DataFileContent.DATA))
            chosen = added.filter(pc.and_(pc.equal(added["spec_id"], spec_id), pc.equal(kind, is_delete)))
            for start in range(0, chosen.num_rows, limit):
                entries = chosen.slice(start, limit)
                content = ManifestContent.DELETES if is_delete else ManifestContent.DATA
                out.append(self._manifest(entries, entries, spec_id, content, command.snapshot_id, sequence_number))
        return tuple(out)

    def _rewritten(self, removal: ManifestRemoval, snapshot_id: int, sequence_number: int) -> ListedManifest:
        """The manifest that takes another's place: its surviving entries as existing, the removed ones as deleted."""
        deleted = with_status(removal.removed.select(ENTRY_SCHEMA.names), ManifestEntryStatus.DELETED, snapshot_id)
        existing = with_status(removal.survivors.select(ENTRY_SCHEMA.names), ManifestEntryStatus.EXISTING)
        return self._carrying((removal.listed,), existing, deleted, snapshot_id, sequence_number)

    def _clustered(self, command: ProduceSnapshot, sequence_number: int) -> Iterable[ListedManifest]:
        """Manifests that hold the entries of others in another order, so that the log has to keep them."""
        limit = entries_per_manifest(self.metadata.properties)
        for clustering in command.clusterings:
            entries = with_status(clustering.entries.select(ENTRY_SCHEMA.names), ManifestEntryStatus.EXISTING)
            for start in range(0, entries.num_rows, limit):
                part = entries.slice(start, limit)
                spec_id = clustering.spec_id
                yield self._manifest(part, part, spec_id, ManifestContent.DATA, command.snapshot_id, sequence_number)

    def _merged(
        self, changes: ManifestChanges, parent: tuple[ListedManifest, ...], snapshot_id: int, sequence_number: int
    ) -> ManifestChanges:
        """The changes with manifests merged where the list would have too many."""
        manifests = changes.apply(parent)
        # What this event makes is not in the log yet, that of other snapshots in the same commit included.
        new = frozenset(m.manifest.manifest_path for m in manifests if m.position == OWN_EVENT)
        merged, removed = [], set(changes.removed)
        for sources in bins_to_merge(manifests, new, self.metadata.properties):
            tables = [self.context.live_entries(m).select(ENTRY_SCHEMA.names) for m in sources]
            existing = with_status(pa.concat_tables(tables), ManifestEntryStatus.EXISTING)
            nothing = existing.slice(0, 0)
            merged.append(self._carrying(sources, existing, nothing, snapshot_id, sequence_number))
            removed |= {m.manifest.manifest_path for m in sources}
        return ManifestChanges((*changes.added, *merged), frozenset(removed))

    def _carrying(
        self,
        sources: tuple[ListedManifest, ...],
        existing: pa.Table,
        deleted: pa.Table,
        snapshot_id: int,
        sequence_number: int,
    ) -> ListedManifest:
        """A manifest that takes the place of others of one spec and content.

        The log keeps what it deletes only, and everything where too many manifests would build on each other.
        """
        entries = pa.concat_tables([existing, deleted])
        depth = 1 + max(m.depth for m in sources)
        stored = deleted if depth <= MAX_DEPTH else entries
        first = sources[0].manifest
        spec_id, content = first.partition_spec_id, first.content
        listed = self._manifest(entries, stored, spec_id, content, snapshot_id, sequence_number)
        if stored is entries:
            return listed
        paths = tuple(m.manifest.manifest_path for m in sources)
        first_row_ids = tuple(m.manifest.first_row_id for m in sources)
        return evolve(listed, sources=paths, source_first_row_ids=first_row_ids, depth=depth)

    def _manifest(
        self,
        entries: pa.Table,
        stored: pa.Table,
        spec_id: int,
        content: ManifestContent,
        snapshot_id: int,
        sequence_number: int,
    ) -> ListedManifest:
        manifest = summarize(
            entries,
            manifest_path=f"{self._folder}/{self.context.event_id}-m{self._manifests}.avro",
            spec=self.metadata.spec_by_id(spec_id),
            schema=self.metadata.all_fields,
            content=content,
            sequence_number=sequence_number,
            snapshot_id=snapshot_id,
        )
        listed = ListedManifest(manifest, OWN_EVENT, self._rows, stored.num_rows)
        if stored.num_rows:
            self.content.append(stored)
        self._rows += stored.num_rows
        self._manifests += 1
        return listed


class StaleRemovals(Exception):
    """The branch moved after the removals were planned; the shell plans again. Never leaves the engine."""


def with_status(entries: pa.Table, status: ManifestEntryStatus, snapshot_id: int | None = None) -> pa.Table:
    """The entries under another status and, where given, another snapshot id."""
    rows = entries.num_rows
    out = entries.set_column(0, ENTRY_SCHEMA.field("status"), pa.repeat(pa.scalar(int(status), pa.int32()), rows))
    if snapshot_id is not None:
        out = out.set_column(1, ENTRY_SCHEMA.field("snapshot_id"), pa.repeat(pa.scalar(snapshot_id, pa.int64()), rows))
    return out.cast(ENTRY_SCHEMA)


def assign_first_row_ids(
    changes: ManifestChanges, parent: tuple[ListedManifest, ...], first_row_id: int
) -> tuple[ManifestChanges, int]:
    """Gives each data manifest without a first row id the next free range, in list order (RL2).

    Returns the changes and the number of row ids assigned. A manifest of the parent's list that gets one, as after an
    upgrade to v3, is listed anew under the same path.
    """
    next_row_id = first_row_id
    added, again, removed = [], [], set(changes.removed)
    for listed in changes.apply(parent):
        manifest = listed.manifest
        is_new = any(listed is m for m in changes.added)
        if manifest.content is ManifestContent.DATA and manifest.first_row_id is None:
            listed = evolve(listed, manifest=evolve(manifest, first_row_id=next_row_id))
            next_row_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
            if not is_new:
                removed.add(manifest.manifest_path)
                again.append(listed)
        if is_new:
            added.append(listed)
    return ManifestChanges((*added, *again), frozenset(removed)), next_row_id - first_row_id


def set_ref(name: str, ref: SnapshotRef) -> dict[str, Any]:
    """The update that points a branch or tag at a snapshot."""
    return {"action": "set-snapshot-ref", "ref-name": name, **ref.to_dict()}


def check_branch(metadata: TableMetadata, branch: str) -> None:
    """Raises NoSuchSnapshotError where a branch other than main does not exist."""
    try:
        metadata.snapshot_by_ref(branch)
    except NoSuchSnapshotError:
        raise NoSuchSnapshotError(f"there is no branch {branch!r}; make it with manage_snapshots()") from None


__all__ = [
    "ChangeMetadata",
    "Command",
    "Context",
    "Decision",
    "ManifestRemoval",
    "ProduceSnapshot",
    "StaleRemovals",
    "Update",
    "assign_first_row_ids",
    "decide",
]
