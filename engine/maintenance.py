"""Keeping a table small: expiring snapshots, removing orphan files. The names are PyIceberg's where it has one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping

from attrs import evolve, frozen

from icecore.engine.decide import ChangeMetadata
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.events import Provenance
from icecore.engine.ids import now_ms
from icecore.engine.log.store import MODELS
from icecore.engine.metadata_builder import MetadataBuilder
from icecore.engine.moments import Moment, milliseconds_of
from icecore.engine.orphans import OrphanFiles, OrphanSearch, remove_orphan_files
from icecore.engine.reachable import files_of_expired, shares_location
from icecore.engine.repository import Repository
from icecore.engine.retention import Expiry, expiring_updates
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.state import TableState

Commit = Callable[[ChangeMetadata], TableState]


@frozen
class Expired:
    """What an expiry removed: snapshots and refs from the table, files from storage."""

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()


@frozen
class Maintenance:
    """The maintenance of one table, of that stream; a commit goes through `commit`, which gives the state after it."""

    stream: str
    repository: Repository
    commit: Commit
    provenance: Provenance

    def expire_snapshots(self) -> ExpireSnapshots:
        """Says what is to expire, step by step; nothing happens before its `commit()`."""
        return ExpireSnapshots(self)

    def remove_orphan_files(
        self,
        older_than: Moment | None = None,
        *,
        location: str | None = None,
        dry_run: bool = False,
        equal_schemes: Mapping[str, str] | None = None,
        equal_authorities: Mapping[str, str] | None = None,
        prefix_mismatch_mode: str = "error",
        allow_recent: bool = False,
    ) -> OrphanFiles:
        """Deletes files in the table's folders that no snapshot of it, and nothing else in the warehouse, needs.

        Only files last written before `older_than` go, a time (see `moments`), three days ago unless given;
        nothing younger than 24 hours, since writers at work have files that no commit names yet, but with
        `allow_recent`. `location` names another folder to look into. Names that start with `_` or `.` are passed over,
        symbolic links too. As with `expire_snapshots`, what only history before the table's snapshots had is not kept.
        Also kept is all that tables nested here, other tables of the warehouse, dropped ones too, and metadata files of
        another catalog lead to. `equal_schemes` and `equal_authorities` map names of stores to the one they stand for;
        `prefix_mismatch_mode` (`error`, `ignore`, `delete`) is for paths that are needed under another.

        Raises ValidationError where `gc.enabled` is false, CommitConflictError where another engine committed behind
        the log, StorageError, CorruptFileError; no file was deleted then.
        """
        search = OrphanSearch.of(
            older_than, location, equal_schemes, equal_authorities, prefix_mismatch_mode, allow_recent
        )
        return remove_orphan_files(self.repository, self.stream, search, dry_run=dry_run)


class ExpireSnapshots:
    """Gathers what is to expire. Without any call the table's own retention settings hold (R1, R2)."""

    def __init__(self, maintenance: Maintenance) -> None:
        self._maintenance = maintenance
        self._expiry = Expiry()
        self._clean = True

    def by_id(self, snapshot_id: int) -> ExpireSnapshots:
        """Expires this snapshot; where nothing but ids is asked for, no other one."""
        return self.by_ids([snapshot_id])

    def by_ids(self, snapshot_ids: Iterable[int]) -> ExpireSnapshots:
        self._expiry = evolve(self._expiry, snapshot_ids=self._expiry.snapshot_ids | set(snapshot_ids))
        return self

    def older_than(self, when: Moment) -> ExpireSnapshots:
        """Expires snapshots from before a time (see `moments`). Raises ValidationError."""
        self._expiry = evolve(self._expiry, older_than_ms=milliseconds_of(when, "older_than"))
        return self

    def retain_last(self, count: int) -> ExpireSnapshots:
        """Keeps that many snapshots of each branch that does not say itself how many, whatever their age."""
        if count < 1:
            raise ValidationError(f"at least 1 snapshot is retained, found {count}")
        self._expiry = evolve(self._expiry, retain_last=count)
        return self

    def clean_files(self, clean: bool) -> ExpireSnapshots:
        """Whether files that no snapshot needs any more are deleted, as they are unless told otherwise."""
        self._clean = clean
        return self

    def dry_run(self) -> Expired:
        """What `commit` would remove and delete, which it leaves alone. Raises as `commit` does."""
        repository = self._maintenance.repository
        state = repository.live_state(self._maintenance.stream)
        updates = expiring_updates(state.metadata, self._expiry, now_ms())
        gone = next((u["snapshot-ids"] for u in updates if u["action"] == "remove-snapshots"), ())
        refs = tuple(u["ref-name"] for u in updates if u["action"] == "remove-snapshot-ref")
        files: Iterable[str] = ()
        if gone and self._clean and not shares_location(repository, state):
            builder = MetadataBuilder(state.metadata)
            builder.apply(updates, state.metadata.last_updated_ms)
            with contextlib.suppress(IcecoreError):
                files = files_of_expired(repository, evolve(state, metadata=builder.build()), state.metadata)
        return Expired(tuple(gone), refs, tuple(files))

    def commit(self) -> Expired:
        """Removes what expires in one commit, then deletes files; returns what went.

        A table whose files are written by hand is written out first, since readers of its older metadata would miss
        what is deleted. Files are left alone where the table's metadata can't be written, or another table of the
        warehouse is at the same location. Raises ValidationError, NoSuchSnapshotError, CommitConflictError; no file
        was deleted then.
        """
        expiry, at_ms = self._expiry, now_ms()
        decided: list[TableMetadata] = []

        def updates_for(metadata: TableMetadata) -> list[dict[str, object]]:
            decided.append(metadata)
            return expiring_updates(metadata, expiry, at_ms)

        state = self._maintenance.commit(ChangeMetadata(updates_for))
        before = decided[-1]
        updates = expiring_updates(before, expiry, at_ms)
        gone = next((u["snapshot-ids"] for u in updates if u["action"] == "remove-snapshots"), ())
        refs = tuple(u["ref-name"] for u in updates if u["action"] == "remove-snapshot-ref")
        deleted = self._clean_up(state, before) if gone and self._clean else ()
        return Expired(tuple(gone), refs, deleted)

    def _clean_up(self, state: TableState, before: TableMetadata) -> tuple[str, ...]:
        repository = self._maintenance.repository
        if state.pending:
            with contextlib.suppress(IcecoreError):
                repository.materialize_pending(state.stream, self._maintenance.provenance)
        state = repository.state(state.stream)
        head = repository.store.row(MODELS, "get_head", stream=state.stream)
        if state.pending or head is None or head["materialized_version"] < state.stream_version:
            return ()
        if shares_location(repository, state):
            return ()
        try:
            files = files_of_expired(repository, state, before)
        except IcecoreError:
            # What the remaining snapshots need is not known, so nothing may go.
            return ()
        storage, deleted = repository.storage_of(state), []
        for location in files:
            with contextlib.suppress(IcecoreError):
                storage.delete(location)
                deleted.append(location)
        return tuple(deleted)
