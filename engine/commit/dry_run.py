"""The outcomes of dry runs: commits that were decided and not made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.commit.decide import Decision
from icecore.engine.common.text import number_in, short_repr
from icecore.engine.errors import CommitConflictError, ConflictingCommitsError
from icecore.engine.events.event import DELETIONS, TABLE_COMMITTED, TABLE_CREATED, Event
from icecore.engine.formats.deleted_files import decode_files
from icecore.engine.formats.event_content import decode_content
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import AddSnapshot, read_table_updates
from icecore.engine.spec.view import ViewMetadata


@frozen
class DryRun:
    """The outcome of a dry run of one table's commit.

    `payload` is what its event would hold, `metadata` the table after it, `conflicts` says what would refuse it now.
    `added_files` and `removed_files` are paths of data and delete files; those that only this call wrote are deleted
    again. `is_done` says that an earlier call with the same idempotency key made the commit already.
    """

    __repr__ = short_repr

    payload: Mapping[str, Any] = field(repr=False)
    metadata: TableMetadata = field(repr=False)
    conflicts: tuple[str, ...] = ()
    added_files: tuple[str, ...] = ()
    removed_files: tuple[str, ...] = ()
    is_done: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change, so that no event would be made."""
        return not self.payload.get("updates")

    @property
    def summaries(self) -> tuple[Mapping[str, str], ...]:
        """The summaries of the snapshots that would be made, in their order (L5)."""
        return summaries_of(self.payload)

    @property
    def totals(self) -> dict[str, int]:
        """The totals after the last new snapshot: `total-records` and the like; empty without a snapshot."""
        return totals_of(self.payload)


@frozen
class ViewDryRun:
    """The outcome of a dry run of one view's commit: the event's payload, and the view after it."""

    __repr__ = short_repr

    payload: Mapping[str, Any] = field(repr=False)
    metadata: ViewMetadata = field(repr=False)
    conflicts: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change, so that no event would be made."""
        return not self.payload.get("updates")


@frozen
class PartDryRun:
    """One event of a transaction's dry run, or its conflicts: then it has no kind and no payload."""

    __repr__ = short_repr

    identifier: tuple[str, ...]
    kind: str | None = None
    payload: Mapping[str, Any] = field(factory=dict, repr=False)
    conflicts: tuple[str, ...] = ()
    added_files: tuple[str, ...] = ()
    removed_files: tuple[str, ...] = ()
    message: str | None = None

    @property
    def totals(self) -> dict[str, int]:
        """The totals, as in `DryRun.totals`; empty of an event of anything but a table."""
        return totals_of(self.payload) if self.kind in (TABLE_CREATED, TABLE_COMMITTED) else {}


@frozen
class CatalogDryRun:
    """The outcome of a dry run of a transaction, or a single call, over a catalog: its events, one after another.

    `is_done` says that an earlier call with the same idempotency key made it already.
    """

    __repr__ = short_repr

    parts: tuple[PartDryRun, ...] = ()
    is_done: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change, so that no event would be made."""
        return not any(p.kind for p in self.parts)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The conflicts of all parts."""
        return tuple(text for p in self.parts for text in p.conflicts)


def part_dry_run(identifier: tuple[str, ...], event: Event, content: bytes | None) -> PartDryRun:
    """The outcome of an event that is rolled back."""
    message = event.provenance.message
    if content is not None and event.kind in DELETIONS:
        gone = tuple(f.location for f in decode_files(content, event.position))
        return PartDryRun(identifier, event.kind, event.payload, removed_files=gone, message=message)
    entries = None if content is None else decode_content(content, event.position)
    added, removed = (paths_of(entries, s) for s in (ManifestEntryStatus.ADDED, ManifestEntryStatus.DELETED))
    return PartDryRun(identifier, event.kind, event.payload, (), added, removed, message)


def summaries_of(payload: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    """The summaries of the snapshots that a table's event adds, in their order (L5)."""
    updates = read_table_updates(payload.get("updates", ()))
    return tuple(u.snapshot.summary or {} for u in updates if isinstance(u, AddSnapshot))


def totals_of(payload: Mapping[str, Any]) -> dict[str, int]:
    """The totals after the last snapshot that a table's event adds."""
    found = summaries_of(payload)
    last = found[-1] if found else {}
    # A caller's own properties may have any text.
    return {k: n for k, v in last.items() if k.startswith("total-") and (n := number_in(v)) is not None}


def dry_run_of(base: TableMetadata, decision: Decision, recorded_at_ms: int, conflicts: Iterable[str]) -> DryRun:
    """The outcome of a decision on `base`."""
    builder = MetadataBuilder(base)
    builder.apply(decision.updates, recorded_at_ms)
    return DryRun(
        decision.to_payload(),
        builder.build(),
        tuple(conflicts),
        paths_of(decision.content, ManifestEntryStatus.ADDED),
        paths_of(decision.content, ManifestEntryStatus.DELETED),
    )


def conflicts_of(error: CommitConflictError) -> tuple[str, ...]:
    """Each change that is in the way of a commit, in words."""
    return error.conflicts if isinstance(error, ConflictingCommitsError) else (str(error),)


def refused(base: TableMetadata, conflicts: Iterable[str]) -> DryRun:
    """The outcome of a commit that could not even be decided on: its base does not hold any more."""
    return DryRun({}, base, tuple(conflicts))


def paths_of(content: pa.Table | None, status: ManifestEntryStatus) -> tuple[str, ...]:
    """The paths of a commit's content files of one status, each once, in their order."""
    if content is None:
        return ()
    chosen = content.filter(pc.equal(content["status"], int(status)))
    return tuple(dict.fromkeys(chosen["file_path"].to_pylist()))
