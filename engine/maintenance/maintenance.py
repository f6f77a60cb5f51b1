"""The upkeep of a table: expiring snapshots, removing orphan files. The names are PyIceberg's where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict

from attrs import evolve, frozen

from icecore.engine.commit.single_use import OnceInBlock
from icecore.engine.common.identifiers import checked_number
from icecore.engine.common.text import short_repr
from icecore.engine.deletion.expire_snapshots import Expired, expire, would_expire
from icecore.engine.deletion.orphan_files import OrphanFiles, OrphanSearch, remove_orphan_files
from icecore.engine.errors import ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.events.provenance import provenance
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms
from icecore.engine.maintenance.rewrite_data_files import RewriteResult
from icecore.engine.maintenance.rewrite_table_path import RewrittenTablePath, rewrite_table_path
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.retention import Expiry
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.listing import Lister, list_folders

__all__ = ["ExpireSnapshots", "Expired", "Maintained", "Maintenance", "OrphanFiles"]


class OrphanOptions(TypedDict, total=False):
    """The options of `Maintenance.remove_orphan_files`."""

    location: str | None
    equal_schemes: Mapping[str, str] | None
    equal_authorities: Mapping[str, str] | None
    prefix_mismatch_mode: str
    allow_recent: bool
    message: str | None
    author: str | None
    idempotency_key: str | None
    dry_run: bool


@frozen
class Maintained:
    """The result of `Table.maintain`: what each step did, or would do.

    `skipped` says which steps were left out, and why; of a dry run `compacted` has only the files that
    would be read.
    """

    __repr__ = short_repr

    compacted: RewriteResult = RewriteResult()
    deletes: RewriteResult = RewriteResult()
    rewrote_manifests: bool = False
    expired: Expired = Expired()
    orphans: OrphanFiles = OrphanFiles()
    skipped: tuple[str, ...] = ()


@frozen
class Maintenance:
    """The upkeep of the table of one stream; `committed` takes the state after a commit, `lister` lists folders."""

    __repr__ = short_repr

    stream: str
    repository: Repository
    committed: Callable[[TableState], None]
    actor: str | None
    lister: Lister = list_folders

    def expire_snapshots(
        self, *, message: str | None = None, author: str | None = None, idempotency_key: str | None = None
    ) -> ExpireSnapshots:
        """A builder of an expiry, step by step; nothing happens before its `commit()`."""
        return ExpireSnapshots(
            self, provenance(self.actor, message=message, author=author, idempotency_key=idempotency_key)
        )

    def remove_orphan_files(
        self,
        older_than: TimestampLike | None = None,
        *,
        location: str | None = None,
        equal_schemes: Mapping[str, str] | None = None,
        equal_authorities: Mapping[str, str] | None = None,
        prefix_mismatch_mode: str = "error",
        allow_recent: bool = False,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> OrphanFiles:
        """Deletes files in the table's folders that no snapshot of it, and nothing else in the warehouse, references.

        Only files last written before `older_than` are deleted, a time (see `timestamps`), by default three days ago;
        it must be 24 hours ago or more, since writers at work have files that no commit references yet, unless
        `allow_recent`. `location` is another folder to search. Skipped are names that start with `_` or `.`, symbolic
        links, and files that are not named as a table's files are (see `file_names`), which the result lists. Files
        that only expired snapshots referenced are orphans, as with `expire_snapshots`. Retained are files of tables
        nested in the folders, of other tables of the warehouse, dropped ones too, and those that metadata files of
        another catalog lead to. `equal_schemes` and `equal_authorities` map schemes and authorities to the one they are
        equal to; `prefix_mismatch_mode` (`error`, `ignore`, `delete`) is for paths that are referenced under another.

        An event with the list of files comes first. Raises ValidationError where `gc.enabled` is false,
        CommitConflictError where another engine's commit is not in the log, StorageError, CorruptFileError; no file was
        deleted then.
        """
        search = OrphanSearch.of(
            older_than, location, equal_schemes, equal_authorities, prefix_mismatch_mode, allow_recent
        )
        who = provenance(self.actor, message=message, author=author, idempotency_key=idempotency_key)
        return remove_orphan_files(self.repository, self.stream, search, who, dry_run=dry_run, lister=self.lister)

    def rewrite_table_path(
        self, source_prefix: str, target_prefix: str, staging_location: str | None = None
    ) -> RewrittenTablePath:
        """Writes the table's metadata for the place that its files are to be copied to, and says which file goes where.

        As Spark's procedure, for all snapshots: metadata, manifests and position deletes are written with locations
        below the target prefix into the staging folder, by default one beside the table's metadata. Nothing is copied
        or committed: once its `files` are, `register_table` takes the table there by its `metadata_location`. Earlier
        metadata files are left out. Raises ValidationError where a file is outside of the source prefix, one prefix is
        inside of the other, or the staging folder is that of the source, ReadOnlyError, StorageError, CorruptFileError.
        """
        self.repository.foreign.adopt_all_if_changed()
        state = self.repository.state(self.stream)
        return rewrite_table_path(self.repository, state, source_prefix, target_prefix, staging_location)


class ExpireSnapshots(OnceInBlock):
    """The builder of an expiry. Without any call the table's own retention settings hold (R1, R2)."""

    def __init__(self, maintenance: Maintenance, provenance: Provenance) -> None:
        self._maintenance = maintenance
        self._provenance = provenance
        self._expiry = Expiry()
        self._clean = True

    def __repr__(self) -> str:
        state = self._maintenance.repository.states.known(self._maintenance.stream)
        return self._shown(state.identifier, [self._expiry])

    def by_id(self, snapshot_id: int) -> ExpireSnapshots:
        """Expires this snapshot; where only ids are given, no other one."""
        return self.by_ids([snapshot_id])

    def by_ids(self, snapshot_ids: Iterable[int]) -> ExpireSnapshots:
        """Expires these snapshots; where only ids are given, no other ones. Raises ValidationError."""
        self._check_open()
        ids = {checked_number(i, "a snapshot id") for i in snapshot_ids}
        self._expiry = evolve(self._expiry, snapshot_ids=self._expiry.snapshot_ids | ids)
        return self

    def older_than(self, when: TimestampLike) -> ExpireSnapshots:
        """Expires snapshots from before a time (see `timestamps`). Raises ValidationError."""
        self._check_open()
        self._expiry = evolve(self._expiry, older_than_ms=to_epoch_ms(when, "older_than"))
        return self

    def retain_last(self, count: int) -> ExpireSnapshots:
        """Retains at least that many snapshots of each branch that sets no number of its own, whatever their age.

        Raises ValidationError.
        """
        count = checked_number(count, "the number of snapshots to retain")
        if count < 1:
            raise ValidationError(f"at least 1 snapshot is retained, found {count}")
        self._check_open()
        self._expiry = evolve(self._expiry, retain_last=count)
        return self

    def clean_files(self, clean: bool) -> ExpireSnapshots:
        """Chooses whether files that no snapshot needs any more are deleted, as is the default."""
        self._check_open()
        self._clean = clean
        return self

    def dry_run(self) -> Expired:
        """The result that `commit` would have; nothing is changed. Raises as `commit` does."""
        self._check_open()
        return would_expire(self._maintenance.repository, self._maintenance.stream, self._expiry, clean=self._clean)

    def commit(self) -> Expired:
        """Expires the snapshots and names the files to delete in one transaction, then deletes these; the result.

        A table that is materialized by hand is materialized too, since its older metadata files name the deleted files.
        No file is deleted while the table's metadata can't be written, or where another table of the warehouse has the
        same location. Raises ValidationError, NoSuchSnapshotError, CommitConflictError; no file was deleted then.
        """
        self._use_up()
        repository, stream = self._maintenance.repository, self._maintenance.stream
        state, expired = expire(repository, stream, self._expiry, self._provenance, clean=self._clean)
        self._maintenance.committed(state)
        return expired
