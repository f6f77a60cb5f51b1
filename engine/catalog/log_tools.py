"""The tools of a catalog's log: read, queried, verified, compared, forgotten, exported, archived.

With `dry_run` nothing is stored, and the result says what the commit would be.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from icecore.engine.archive.log_formats import JSONL
from icecore.engine.catalog.catalog_handle import CatalogHandle, commit, once, table_after, table_of, table_streams
from icecore.engine.common.identifiers import IdentifierLike, checked_number, identifier_tuple
from icecore.engine.errors import NoSuchTableError, ValidationError
from icecore.engine.events.event import is_view_stream
from icecore.engine.events.provenance import provenance
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms
from icecore.engine.log.archives import Archive
from icecore.engine.log.names_at import streams_of_name
from icecore.engine.log.store import CHECKPOINTS
from icecore.engine.table.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.archive.log_transfer import PathOrFile
    from icecore.engine.archive.write_archive import Archived
    from icecore.engine.catalog.catalog_at import CatalogAt
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.events.event import Event
    from icecore.engine.forget.forget import Forgotten
    from icecore.engine.table.commit_options import KeyedCommit
    from icecore.projections.audit.audited_tables import AuditedTable
    from icecore.projections.history.logged_tables import LoggedTables
    from icecore.projections.verify.findings import Verification
    from icecore.projections.verify.verify_tables import Progress


def log(
    catalog: CatalogHandle,
    identifier: IdentifierLike | None = None,
    *,
    actor: str | None = None,
    kind: str | None = None,
    since: TimestampLike | None = None,
    until: TimestampLike | None = None,
    after: int | None = None,
    up_to: int | None = None,
    limit: int | None = None,
    follow: bool = False,
    newest_first: bool = False,
) -> pa.Table:
    """The events as a table, oldest first: author, change, time and reason. `limit` keeps the newest.

    `identifier` names one table or view: the one that has the name, else the one that had it last. With `follow` it
    names all that ever had it. Events from when these had other names are included. `since` and `until` are times (see
    `timestamps`), both included. Raises NoSuchTableError, ValidationError.
    """
    from icecore.projections.inspect.log_table import log_table

    warehouse = catalog._warehouse
    since_ms = None if since is None else to_epoch_ms(since, "since")
    until_ms = None if until is None else to_epoch_ms(until, "until")
    warehouse.repository.foreign.adopt_all_if_changed()
    head = warehouse.store.head()[0]
    first = 0 if after is None else min(max(checked_number(after, "after"), 0), head)
    last = head if up_to is None else min(max(checked_number(up_to, "up_to"), 0), head)
    of_all = partial(
        warehouse.store.filtered_events, actor=actor, kind=kind, since_ms=since_ms, until_ms=until_ms, up_to=last
    )
    streams: Sequence[str | None] = (None,)
    if identifier is not None:
        named = streams_of_name(warehouse.store, warehouse.models, identifier_tuple(identifier))
        streams = named if follow else named[-1:]

    def events(after: int) -> Iterable[Event]:
        return merge(*(of_all(stream=stream, after=after) for stream in streams), key=lambda e: e.position)

    chosen = events(first) if limit is None else _newest(events, first, last, checked_number(limit, "limit"))
    found = log_table(warehouse.store, chosen)
    return found[::-1] if newest_first else found


def _newest(events: Callable[[int], Iterable[Event]], after: int, last: int, limit: int) -> Iterable[Event]:
    """The newest `limit` events after a position, found without reading a long log whole. Raises ValidationError."""
    if limit < 0:
        raise ValidationError(f"limit must not be negative, found {limit}")
    width = limit = min(limit, last)
    while True:
        begin = max(after, last - width)
        found = deque(events(begin), limit)
        if len(found) == limit or begin == after:
            return found
        width *= 8


def sql(
    catalog: CatalogHandle,
    query: str,
    parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    timeout: float | None = None,
    memory_limit: str | None = None,
) -> pa.Table:
    """The rows of DuckDB SQL over the log and the metadata of all tables; `icecore sql --tables` lists them.

    `parameters` gives the values of `$name` by name, or those of `?` and `$1` by position. `timeout` is in seconds,
    `memory_limit` a size, as `512MB`. Tables that can't be read are missing from the answer, with an
    UnreadableTableWarning: the table `problems` says why. Raises ValidationError, QueryLimitError.
    """
    from icecore.projections.audit.sql_prompt import run_sql

    listed, log = partial(audited_tables, catalog), logged_tables(catalog)
    return run_sql(catalog, listed, log, query, parameters, timeout=timeout, memory_limit=memory_limit)


def audited_tables(catalog: CatalogHandle) -> list[AuditedTable]:
    """The tables as audits read them, by name."""
    from icecore.projections.audit.audited_tables import AuditedTable

    return [AuditedTable(n, stream, partial(table_of, catalog, stream), n) for n, stream in table_streams(catalog)]


def logged_tables(catalog: CatalogHandle) -> LoggedTables:
    """The tables that the log knows, for histories of them."""
    from icecore.projections.audit.file_rows import entries_of
    from icecore.projections.history.logged_tables import LoggedTables

    repository = catalog._warehouse.repository
    adopt = repository.foreign.adopt_all_if_changed
    return LoggedTables(repository.store, repository, lambda stream: entries_of(table_of(catalog, stream)), adopt)


def verify(
    catalog: CatalogHandle,
    *identifiers: IdentifierLike,
    deep: bool = False,
    rows: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Checks the log, the read models, and that every file that a snapshot references is there as it was written.

    Dropped tables and views are checked too, as they can be undropped; with `identifiers` only these tables and views.
    `deep` opens the files: footers, row counts, manifests, deletion vectors. `rows` reads the data files too, and
    compares the counts, bounds and partitions by which plans leave them out. `progress` is called with how far it is:
    see `Progress`. `problems` is empty where all is well. Raises NoSuchTableError.
    """
    from icecore.projections.verify import verify

    warehouse = catalog._warehouse
    streams = [warehouse.models.stream(identifier_tuple(i)) for i in identifiers]
    return verify.verify(
        warehouse.store, warehouse.repository, streams or None, deep=deep, rows=rows, progress=progress
    )


def at(
    catalog: CatalogHandle,
    position: int | None = None,
    *,
    timestamp: TimestampLike | None = None,
    timestamp_ms: int | None = None,
) -> CatalogAt:
    """The catalog as of a position of the log, or a time; for reading.

    A `timestamp`, or `timestamp_ms`, is a datetime, ISO 8601 text or milliseconds since the epoch: see
    `timestamps`. Raises ValidationError.
    """
    from icecore.engine.catalog.catalog_at import CatalogAt

    store = catalog._warehouse.store
    if sum(x is not None for x in (position, timestamp, timestamp_ms)) != 1:
        raise ValidationError("at() takes a position or a timestamp")
    head = store.head()[0]
    time = timestamp if timestamp_ms is None else timestamp_ms
    at = checked_number(position, "position") if time is None else store.position_at(to_epoch_ms(time, "timestamp"))
    if not 0 <= at <= head:
        raise ValidationError(f"there is no position {at}: the log ends at {head}")
    return CatalogAt(catalog._warehouse, at)


@overload
def resolve(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    keep: str,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> Table: ...


@overload
def resolve(
    catalog: CatalogHandle, identifier: IdentifierLike, keep: str, *, dry_run: bool, **options: Unpack[KeyedCommit]
) -> Table | CatalogDryRun: ...


def resolve(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    keep: str,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Table | CatalogDryRun:
    """Ends a conflict between the log and a commit of another engine that does not follow it; both stay in the log.

    `keep="foreign"` makes theirs the current state: commits of the log that were never published are abandoned, and can
    be read by `at()`. `keep="log"` publishes the log's state over theirs, which `at()` reads at the event that adopted
    it. Raises ValidationError where there is no conflict, NoSuchTableError, ForeignCommitError where theirs can't be
    adopted, StorageError.
    """
    from icecore.engine.catalog.recovery.resolve_conflict import resolution

    repository = catalog._warehouse.repository
    repository.check_writable()
    name = identifier_tuple(identifier)

    def make() -> Table | CatalogDryRun:
        stream = repository.foreign.stream_of(name, repository.models.table_stream)
        part = resolution(repository, stream, keep)
        return commit(catalog, part, message, author, dry_run) or table_of(catalog, stream)

    asked = {"name": name, "keep": keep}
    return once(catalog, idempotency_key, "resolve", asked, make, partial(table_after, catalog), dry_run=dry_run)


def forget(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    position: int | None = None,
    columns: Sequence[str] | None = None,
    files: Sequence[str] | None = None,
    message: str | None = None,
    author: str | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Forgets as `Table.forget`: in the table of that name, or else in the one last dropped under it.

    `position` is that of the drop where several were dropped. In a purged table no snapshot keeps bounds from being
    forgotten. Raises what `Table.forget` raises, and NoSuchTableError.
    """
    from icecore.engine.forget.forget import Forgetter
    from icecore.engine.revert.undrop import drop_to_purge

    repository = catalog._warehouse.repository
    repository.check_writable()
    name = identifier_tuple(identifier)
    if position is None and repository.models.find(name) is not None:
        stream = repository.foreign.stream_of(name, repository.models.table_stream)
    else:
        stream = drop_to_purge(repository, name, position).stream
    who = provenance(catalog.actor, message=message, author=author)
    forgetter = Forgetter(repository, catalog._warehouse.planning.planner)
    return forgetter.bounds(stream, columns, files, who, dry_run=dry_run)


def forget_text(
    catalog: CatalogHandle,
    text: str,
    *,
    positions: Sequence[int] | None = None,
    message: str | None = None,
    author: str | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Replaces a text by `forgotten` in all events, or in those at `positions`, for good: a name or an address, say.

    It is removed from actors and messages, values of properties and of summaries, comments of columns and the SQL of
    views, from archives and from metadata files of the past; named plans and reports of clients that have it are
    dropped. The log verifies as before, and an event says what was forgotten; see `Table.forget` for what is out of
    reach. Hashes of the texts stay, by which a right guess of a forgotten text can be confirmed. Bounds are forgotten
    by `Table.forget`, idempotency keys never. Raises ValidationError where the text is in names, paths or other values
    that a replay requires, or where a replay without it would end in another current state; MissingArchiveError,
    StorageError.
    """
    from icecore.engine.forget.forget import Forgetter

    catalog._warehouse.repository.check_writable()
    who = provenance(catalog.actor, message=message, author=author)
    forgetter = Forgetter(catalog._warehouse.repository, catalog._warehouse.planning.planner)
    return forgetter.text(text, positions, who, dry_run=dry_run)


def rebuild(catalog: CatalogHandle, identifier: IdentifierLike | None = None) -> None:
    """Rebuilds everything that follows from the log: read models, and all metadata files.

    Of one table or view its metadata files only. Readers see the old ones until all are written. Raises CorruptLogError
    where the log can't be trusted, ForeignCommitError where another engine's commit can't be adopted, NoSuchTableError,
    and RebuildError where some tables can't be rebuilt: these keep their files.
    """
    from icecore.projections.verify import rebuild

    warehouse = catalog._warehouse
    warehouse.store.check_writable()
    warehouse.queries.clear()
    warehouse.planning.clear()
    if identifier is None:
        rebuild.rebuild(warehouse.store, warehouse.repository, warehouse.views)
    else:
        stream = warehouse.models.stream(identifier_tuple(identifier))
        rebuild.rebuild_one(warehouse.store, warehouse.repository, warehouse.views, stream)


def materialize(
    catalog: CatalogHandle,
    identifier: IdentifierLike | None = None,
    *,
    message: str | None = None,
    author: str | None = None,
) -> None:
    """Writes out the files of one table, or of all, whose commits are materialized by hand.

    Raises NoSuchTableError, StorageError.
    """
    from icecore.engine.repository.pending_files import materialize_pending

    repository, who = catalog._warehouse.repository, provenance(catalog.actor, message=message, author=author)
    if identifier is not None:
        stream = repository.foreign.stream_of(identifier_tuple(identifier), repository.models.table_stream)
        materialize_pending(repository, stream, who)
        return
    for _, stream in table_streams(catalog):
        with contextlib.suppress(NoSuchTableError):  # Dropped meanwhile.
            materialize_pending(repository, stream, who)


def export_log(catalog: CatalogHandle, target: PathOrFile, format: str = JSONL) -> int:
    """Writes the whole log to a path or an open binary file, and returns the number of events.

    `jsonl` gives CloudEvents 1.0, one a line, `parquet` a table; both hold the envelope and the content files, and
    name the warehouse's folder, so that `icecore.import_log` makes the same log of it. Raises ValidationError,
    CorruptLogError, StorageError.
    """
    from icecore.engine.archive import log_transfer

    return log_transfer.export_log(catalog._warehouse.store, target, format, catalog._warehouse.folder.root)


def archive(
    catalog: CatalogHandle,
    before: int | None = None,
    *,
    before_timestamp: TimestampLike | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Archived | None:
    """Moves the events before a position or a time into an archive, a file beside the log or at `path`.

    The log then starts from stored states of every table and view. Reads further back, `verify`, `rebuild` and
    `export_log` read the archive too, so keep it in its place; without it the current state works as before, and what
    needs earlier history raises MissingArchiveError. None where there is nothing to archive. Raises ValidationError
    where files of those events are still to be written or `path` is taken, CorruptLogError, CommitConflictError where
    another process archives too, ReadOnlyError, StorageError; the log is as it was then.
    """
    from icecore.engine.repository.archive_events import archive_log

    if (before is None) == (before_timestamp is None):
        raise ValidationError("archive() takes a position or a before_timestamp")
    if before_timestamp is not None:
        before = catalog._warehouse.store.position_at(to_epoch_ms(before_timestamp, "before_timestamp") - 1) + 1
    last = checked_number(before, "before") - 1
    target = None if path is None else Path(path)
    return archive_log(catalog._warehouse.repository, catalog._warehouse.views, last, target)


def archives(catalog: CatalogHandle) -> list[Archive]:
    """The archives that hold the oldest part of the log, oldest first."""
    return catalog._warehouse.store.archives.all()


def checkpoint(catalog: CatalogHandle) -> int:
    """Stores the state of every table and view that changed since its last checkpoint; returns their number.

    Opening and loading then need no replay. Commits store checkpoints now and then by themselves; all are caches, which
    `verify` compares with a replay. Raises ReadOnlyError, WarehouseLockedError.
    """
    repository, views = catalog._warehouse.repository, catalog._warehouse.views
    repository.check_writable()
    done = 0
    for row in catalog._warehouse.store.rows(CHECKPOINTS, "without_checkpoint"):
        if is_view_stream(row["stream"]):
            views.states.checkpoint(views.state(row["stream"]))
        else:
            repository.states.checkpoint(repository.state(row["stream"]))
        done += 1
    return done
