"""The tools of a catalog's log: the part of `Catalog` that undoes, compares, forgets and exports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

from icecore.engine.archive.log_transfer import JSONL
from icecore.engine.catalog.catalog_views import CatalogViews
from icecore.engine.common.identifiers import IdentifierLike, identifier_tuple
from icecore.engine.errors import ValidationError
from icecore.engine.events.event import is_view_stream
from icecore.engine.events.provenance import provenance
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms
from icecore.engine.log.archives import Archive
from icecore.engine.log.store import MODELS
from icecore.engine.table.table import Table

if TYPE_CHECKING:
    from icecore.engine.archive.log_transfer import PathOrFile
    from icecore.engine.archive.write_archive import Archived
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.deletion.purge_table import Purged
    from icecore.engine.forget.forget import Forgotten
    from icecore.engine.table.commit_options import Commit, Undrop
    from icecore.engine.view.view import View
    from icecore.projections.audit.diff import CatalogDiff


class CatalogLogTools(CatalogViews):
    """The operations of a catalog on its log beyond reading it.

    With `dry_run` nothing is stored, and the result says what the commit would be.
    """

    @overload
    def undrop_table(
        self, identifier: IdentifierLike, *, dry_run: Literal[False] = False, **options: Unpack[Undrop]
    ) -> Table: ...

    @overload
    def undrop_table(
        self, identifier: IdentifierLike, *, dry_run: bool, **options: Unpack[Undrop]
    ) -> Table | CatalogDryRun: ...

    def undrop_table(
        self,
        identifier: IdentifierLike,
        *,
        position: int | None = None,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """Gives the table that was last dropped under a name its name back, with all its data.

        `position` is that of the drop to undo where several tables of that name were dropped. Raises NoSuchTableError,
        TableAlreadyExistsError where the name is taken, NoSuchNamespaceError where its namespace is gone.
        """
        from icecore.engine.joint_commit.joint_names import NameGivenBack

        part = NameGivenBack(identifier_tuple(identifier), "table", position)
        return self._commit(part, message, author, dry_run) or self._table_of(part.stream)

    def purge_table(
        self,
        identifier: IdentifierLike,
        *,
        position: int | None = None,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Purged:
        """Deletes the files of the table that was last dropped under a name, for good; an event names them first.

        `position` is that of the drop where several tables of that name were dropped. What anything else in the
        warehouse needs stays, and what lies neither in the table's folders nor in the warehouse is left. A table that
        was purged can't be undropped; to purge it again looks for what stayed. With an `idempotency_key` a call that is
        made again is answered with what the first one did, whatever was dropped under that name since. Raises
        NoSuchTableError, ValidationError where `gc.enabled` is false, CommitConflictError, StorageError,
        CorruptFileError; no file was deleted then.
        """
        from icecore.engine.deletion.purge_table import purge_dropped

        who = provenance(self.actor, message=message, author=author, idempotency_key=idempotency_key)
        name = identifier_tuple(identifier)
        return purge_dropped(
            self._warehouse.repository, self._warehouse.planning.planner, name, position, who, dry_run=dry_run
        )

    @overload
    def undrop_view(
        self, identifier: IdentifierLike, *, dry_run: Literal[False] = False, **options: Unpack[Undrop]
    ) -> View: ...

    @overload
    def undrop_view(
        self, identifier: IdentifierLike, *, dry_run: bool, **options: Unpack[Undrop]
    ) -> View | CatalogDryRun: ...

    def undrop_view(
        self,
        identifier: IdentifierLike,
        *,
        position: int | None = None,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> View | CatalogDryRun:
        """Gives a view its name back, as `undrop_table`.

        Raises NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError.

        Raises NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError.
        """
        from icecore.engine.joint_commit.joint_names import NameGivenBack

        part = NameGivenBack(identifier_tuple(identifier), "view", position)
        return self._commit(part, message, author, dry_run) or self._view_of(part.stream)

    @overload
    def resolve(
        self, identifier: IdentifierLike, keep: str, *, dry_run: Literal[False] = False, **options: Unpack[Commit]
    ) -> Table: ...

    @overload
    def resolve(
        self, identifier: IdentifierLike, keep: str, *, dry_run: bool, **options: Unpack[Commit]
    ) -> Table | CatalogDryRun: ...

    def resolve(
        self,
        identifier: IdentifierLike,
        keep: str,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """Ends a conflict between the log and a commit of another engine that does not follow it; both stay in the log.

        `keep="foreign"` makes theirs the table's state: commits of the log that were never published are left aside,
        to be read by `at()`. `keep="log"` publishes the log's state over theirs, which `at()` reads at the event that
        took it in. Raises ValidationError where there is no conflict, NoSuchTableError, ForeignCommitError where theirs
        can't be kept, StorageError.
        """
        from icecore.engine.catalog.resolve_conflict import resolution

        self._warehouse.repository.check_writable()
        stream = self._warehouse.repository.foreign.stream_of(
            identifier_tuple(identifier), self._warehouse.models.table_stream
        )
        part = resolution(self._warehouse.repository, stream, keep)
        return self._commit(part, message, author, dry_run) or self._table_of(stream)

    def diff(self, from_position: int, to_position: int | None = None) -> CatalogDiff:
        """The difference between two positions of the log, up to the last by default: see `CatalogDiff`.

        Reads the log only. Raises ValidationError where the positions are not in the log or in the wrong order.
        """
        from icecore.projections.audit.diff import diff

        self._warehouse.repository.foreign.adopt_all_if_changed()
        to = self._warehouse.store.head()[0] if to_position is None else to_position
        return diff(self._warehouse.store, self._warehouse.repository, self._warehouse.views, from_position, to)

    @overload
    def revert(self, position: int, *, dry_run: Literal[False] = False, **options: Unpack[Commit]) -> int: ...

    @overload
    def revert(self, position: int, *, dry_run: bool, **options: Unpack[Commit]) -> int | CatalogDryRun: ...

    def revert(
        self, position: int, *, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> int | CatalogDryRun:
        """Undoes the commit at a position by a new one, whose position is returned; its message says which by default.

        Properties, refs, the current schema, spec and sort order are set back where they are still as the commit left
        them; files that it added are removed where all are still live, files that it removed come back; renames, drops
        and creates are undone. All or nothing. Raises CommitConflictError naming the later commits that stand in the
        way, ValidationError for what has no way back: format upgrades, expired snapshots, deletes by delete files.
        """
        from icecore.engine.joint_commit.joint_revert import revert

        who = provenance(self.actor, message=message, author=author)
        return revert(self._warehouse.targets, position, who, dry_run=dry_run)

    def forget(
        self,
        identifier: IdentifierLike,
        *,
        position: int | None = None,
        columns: Sequence[str] | None = None,
        files: Sequence[str] | None = None,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forgets as `Table.forget`, of the table of a name or, where there is none, of the one last dropped under it.

        `position` is that of the drop where several were dropped. Of a table that was purged, no snapshot holds a file.
        Raises NoSuchTableError besides.
        """
        from icecore.engine.forget.forget import Forgetter
        from icecore.engine.revert.undrop import drop_to_purge

        self._warehouse.repository.check_writable()
        name = identifier_tuple(identifier)
        if position is None and self._warehouse.repository.models.find(name) is not None:
            stream = self._warehouse.repository.foreign.stream_of(name, self._warehouse.repository.models.table_stream)
        else:
            stream = drop_to_purge(self._warehouse.repository, name, position).stream
        who = provenance(self.actor, message=message, author=author)
        return Forgetter(self._warehouse.repository, self._warehouse.planning.planner).bounds(
            stream, columns, files, who, dry_run=dry_run
        )

    def forget_text(
        self,
        text: str,
        *,
        positions: Sequence[int] | None = None,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Replaces a text in events, all or some, by `forgotten`, for good: a name or an address, say.

        It goes from actors and messages, values of properties and of summaries, comments of columns and the SQL of
        views, from archives and from metadata files of the past. The log verifies as before, and an event says what was
        forgotten; see `Table.forget` for what is out of reach. Hashes of the texts stay, by which who guesses rightly
        can tell that a forgotten text was the guess. Bounds are forgotten by `Table.forget`, keys of idempotency never.
        Raises ValidationError where the text stands in what the log can't do without, as names and paths, or is still
        in force: a replay without it must end in what there is now. MissingArchiveError, StorageError.
        """
        from icecore.engine.forget.forget import Forgetter

        self._warehouse.repository.check_writable()
        who = provenance(self.actor, message=message, author=author)
        return Forgetter(self._warehouse.repository, self._warehouse.planning.planner).text(
            text, positions, who, dry_run=dry_run
        )

    def export_log(self, target: PathOrFile, format: str = JSONL) -> int:
        """Writes the whole log to a path or an open binary file, and returns the number of events.

        `jsonl` gives CloudEvents 1.0, one a line, `parquet` a table; both hold the envelope and the content files, and
        name the warehouse's folder, so that `icecore.import_log` makes the same log of it. Raises ValidationError,
        CorruptLogError, StorageError.
        """

        from icecore.engine.archive.log_transfer import export_log

        return export_log(self._warehouse.store, target, format, self._warehouse.folder.root)

    def archive(
        self,
        before: int | None = None,
        *,
        before_timestamp: TimestampLike | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> Archived | None:
        """Moves the events before a position or a time into an archive, a file beside the log or at `path`.

        The log goes on from states that it notes of every table and view. Reading further back, `verify`, `rebuild` and
        `export_log` read the archive too, so keep it where it is; where it is gone, all that there is now still works,
        and what needs history before the cut raises MissingArchiveError. None where there is nothing to archive. Raises
        ValidationError where files of those events are still to be written or `path` is taken, CorruptLogError,
        CommitConflictError where another process archives too, ReadOnlyError, StorageError; the log is as it was then.
        """
        from icecore.engine.catalog.archive_events import archive_log

        if (before is None) == (before_timestamp is None):
            raise ValidationError("archive() takes a position or a before_timestamp")
        if before_timestamp is not None:
            before = self._warehouse.store.position_at(to_epoch_ms(before_timestamp, "before_timestamp") - 1) + 1
        assert before is not None, "one of both was given"
        target = None if path is None else Path(path)
        return archive_log(self._warehouse.repository, self._warehouse.views, before - 1, target)

    def archives(self) -> list[Archive]:
        """The archives that hold the oldest part of the log, oldest first."""
        return self._warehouse.store.archives.all()

    def checkpoint(self) -> int:
        """Stores the state of every table and view that changed since its last checkpoint; returns their number.

        Opening and loading then replay nothing. Commits note checkpoints of their own now and then; both are caches,
        which `verify` compares with a replay. Raises ReadOnlyError, WarehouseLockedError.
        """
        self._warehouse.repository.check_writable()
        done = 0
        for row in self._warehouse.store.rows(MODELS, "without_checkpoint"):
            if is_view_stream(row["stream"]):
                self._warehouse.views.states.checkpoint(self._warehouse.views.state(row["stream"]))
            else:
                self._warehouse.repository.states.checkpoint(self._warehouse.repository.state(row["stream"]))
            done += 1
        return done
